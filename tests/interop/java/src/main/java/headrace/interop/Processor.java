package headrace.interop;

import java.nio.charset.StandardCharsets;
import software.amazon.kinesis.lifecycle.events.InitializationInput;
import software.amazon.kinesis.lifecycle.events.LeaseLostInput;
import software.amazon.kinesis.lifecycle.events.ProcessRecordsInput;
import software.amazon.kinesis.lifecycle.events.ShardEndedInput;
import software.amazon.kinesis.lifecycle.events.ShutdownRequestedInput;
import software.amazon.kinesis.processor.RecordProcessorCheckpointer;
import software.amazon.kinesis.processor.ShardRecordProcessor;
import software.amazon.kinesis.retrieval.KinesisClientRecord;

/** Prints an event for every record, then checkpoints the batch. */
final class Processor implements ShardRecordProcessor {
    private final String worker;
    private final long pause;
    private String shard = "-";

    Processor(String worker, long pause) {
        this.worker = worker;
        this.pause = pause;
    }

    @Override
    public void initialize(InitializationInput input) {
        shard = input.shardId();
        Worker.tell("initialize", worker, shard, input.extendedSequenceNumber().sequenceNumber());
    }

    @Override
    public void processRecords(ProcessRecordsInput input) {
        if (input.records().isEmpty()) {
            return;
        }
        for (KinesisClientRecord record : input.records()) {
            Worker.tell(
                    "record",
                    worker,
                    shard,
                    record.sequenceNumber(),
                    record.subSequenceNumber(),
                    StandardCharsets.UTF_8.decode(record.data()));
        }
        try {
            Thread.sleep(pause);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
        checkpoint("checkpoint", input.checkpointer());
    }

    @Override
    public void leaseLost(LeaseLostInput input) {
        Worker.tell("leaseLost", worker, shard);
    }

    @Override
    public void shardEnded(ShardEndedInput input) {
        checkpoint("shardEnded", input.checkpointer());
    }

    @Override
    public void shutdownRequested(ShutdownRequestedInput input) {
        checkpoint("shutdownRequested", input.checkpointer());
    }

    private void checkpoint(String event, RecordProcessorCheckpointer checkpointer) {
        try {
            checkpointer.checkpoint();
            Worker.tell(event, worker, shard);
        } catch (Exception refused) {
            Worker.tell(event, worker, shard, refused.getClass().getSimpleName());
        }
    }
}
