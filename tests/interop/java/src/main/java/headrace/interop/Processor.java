package headrace.interop;

import java.nio.charset.StandardCharsets;
import java.util.List;
import software.amazon.kinesis.lifecycle.events.InitializationInput;
import software.amazon.kinesis.lifecycle.events.LeaseLostInput;
import software.amazon.kinesis.lifecycle.events.ProcessRecordsInput;
import software.amazon.kinesis.lifecycle.events.ShardEndedInput;
import software.amazon.kinesis.lifecycle.events.ShutdownRequestedInput;
import software.amazon.kinesis.processor.RecordProcessorCheckpointer;
import software.amazon.kinesis.processor.ShardRecordProcessor;
import software.amazon.kinesis.retrieval.KinesisClientRecord;

/**
 * Prints an event for every record, then checkpoints the batch.
 *
 * With a number of records to stop after, it processes that many of its shard, and goes on until a user record that isn't the last one
 * of its aggregate. There it checkpoints, and it does nothing more.
 */
final class Processor implements ShardRecordProcessor {
    private final String worker;
    private final long pause;
    private final long stopAfter;
    private String shard = "-";
    private long processed;
    private boolean stopped;

    Processor(String worker, long pause, long stopAfter) {
        this.worker = worker;
        this.pause = pause;
        this.stopAfter = stopAfter;
    }

    @Override
    public void initialize(InitializationInput input) {
        shard = input.shardId();
        Events.tell("initialize", worker, shard, input.extendedSequenceNumber().sequenceNumber());
    }

    @Override
    public void processRecords(ProcessRecordsInput input) {
        if (input.records().isEmpty() || stopped) {
            return;
        }
        List<KinesisClientRecord> records = input.records();
        for (int at = 0; at < records.size(); at++) {
            KinesisClientRecord record = records.get(at);
            Events.tell(
                    "record",
                    worker,
                    shard,
                    record.sequenceNumber(),
                    record.subSequenceNumber(),
                    StandardCharsets.UTF_8.decode(record.data()));
            processed++;
            if (processed > stopAfter && at + 1 < records.size() && isOneRecord(record, records.get(at + 1))) {
                stopInside(record, input.checkpointer());
                return;
            }
        }
        try {
            Thread.sleep(pause);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
        checkpoint("checkpoint", input.checkpointer());
    }

    private static boolean isOneRecord(KinesisClientRecord one, KinesisClientRecord other) {
        return one.sequenceNumber().equals(other.sequenceNumber());
    }

    private void stopInside(KinesisClientRecord record, RecordProcessorCheckpointer checkpointer) {
        stopped = true;
        try {
            checkpointer.checkpoint(record.sequenceNumber(), record.subSequenceNumber());
            Events.tell("checkpoint", worker, shard);
            Events.tell("inside", worker, shard, record.sequenceNumber(), record.subSequenceNumber());
        } catch (Exception refused) {
            Events.tell("checkpoint", worker, shard, refused.getClass().getSimpleName());
        }
    }

    @Override
    public void leaseLost(LeaseLostInput input) {
        Events.tell("leaseLost", worker, shard);
    }

    @Override
    public void shardEnded(ShardEndedInput input) {
        checkpoint("shardEnded", input.checkpointer());
    }

    @Override
    public void shutdownRequested(ShutdownRequestedInput input) {
        if (stopped) {
            return;
        }
        checkpoint("shutdownRequested", input.checkpointer());
    }

    private void checkpoint(String event, RecordProcessorCheckpointer checkpointer) {
        try {
            checkpointer.checkpoint();
            Events.tell(event, worker, shard);
        } catch (Exception refused) {
            Events.tell(event, worker, shard, refused.getClass().getSimpleName());
        }
    }
}
