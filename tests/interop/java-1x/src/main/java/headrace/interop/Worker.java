package headrace.interop;

import com.amazonaws.auth.AWSStaticCredentialsProvider;
import com.amazonaws.auth.BasicAWSCredentials;
import com.amazonaws.services.kinesis.clientlibrary.interfaces.IRecordProcessorCheckpointer;
import com.amazonaws.services.kinesis.clientlibrary.interfaces.v2.IRecordProcessor;
import com.amazonaws.services.kinesis.clientlibrary.interfaces.v2.IShutdownNotificationAware;
import com.amazonaws.services.kinesis.clientlibrary.lib.worker.InitialPositionInStream;
import com.amazonaws.services.kinesis.clientlibrary.lib.worker.KinesisClientLibConfiguration;
import com.amazonaws.services.kinesis.clientlibrary.lib.worker.ShutdownReason;
import com.amazonaws.services.kinesis.clientlibrary.types.InitializationInput;
import com.amazonaws.services.kinesis.clientlibrary.types.ProcessRecordsInput;
import com.amazonaws.services.kinesis.clientlibrary.types.ShutdownInput;
import com.amazonaws.services.kinesis.metrics.impl.NullMetricsFactory;
import com.amazonaws.services.kinesis.model.Record;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * One worker of an application of KCL 1.x. Arguments and events are those of the worker in ../java, as far as 1.x has them:
 * app, stream, worker, endpoint, position (TRIM_HORIZON or LATEST) and lease.failoverTimeMillis.
 */
public final class Worker {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> given = Events.named(arguments);
        String name = given.get("worker");
        KinesisClientLibConfiguration config = new KinesisClientLibConfiguration(
                        given.get("app"),
                        given.get("stream"),
                        new AWSStaticCredentialsProvider(new BasicAWSCredentials("local", "local")),
                        name)
                .withRegionName("us-east-1")
                .withKinesisEndpoint(given.get("endpoint"))
                .withDynamoDBEndpoint(given.get("endpoint"))
                .withInitialPositionInStream(
                        InitialPositionInStream.valueOf(given.getOrDefault("position", "TRIM_HORIZON")))
                .withShardSyncIntervalMillis(Long.parseLong(given.getOrDefault("lease.shardSyncIntervalMillis", "60000")))
                .withFailoverTimeMillis(Long.parseLong(given.getOrDefault("lease.failoverTimeMillis", "10000")));
        com.amazonaws.services.kinesis.clientlibrary.lib.worker.Worker worker =
                new com.amazonaws.services.kinesis.clientlibrary.lib.worker.Worker.Builder()
                        .recordProcessorFactory(() -> new Processor(name))
                        .config(config)
                        .metricsFactory(new NullMetricsFactory())
                        .build();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(worker, name)));
        Events.endWithInput();
        Events.tell("started", name, "-");
        worker.run();
        Events.tell("ended", name, "-");
    }

    private static void stop(com.amazonaws.services.kinesis.clientlibrary.lib.worker.Worker worker, String name) {
        Events.tell("stopping", name, "-");
        try {
            Events.tell("stopped", name, "-", worker.startGracefulShutdown().get(20, TimeUnit.SECONDS));
        } catch (Exception failure) {
            Events.tell("stopped", name, "-", failure);
        }
    }

    /** Prints an event for every record, then checkpoints the batch. */
    private static final class Processor implements IRecordProcessor, IShutdownNotificationAware {
        private final String worker;
        private String shard = "-";

        Processor(String worker) {
            this.worker = worker;
        }

        @Override
        public void initialize(InitializationInput input) {
            shard = input.getShardId();
            Events.tell("initialize", worker, shard, input.getExtendedSequenceNumber().getSequenceNumber());
        }

        @Override
        public void processRecords(ProcessRecordsInput input) {
            if (input.getRecords().isEmpty()) {
                return;
            }
            for (Record record : input.getRecords()) {
                String data = StandardCharsets.UTF_8.decode(record.getData()).toString();
                Events.tell("record", worker, shard, record.getSequenceNumber(), 0, data);
            }
            checkpoint("checkpoint", input.getCheckpointer());
        }

        @Override
        public void shutdown(ShutdownInput input) {
            if (input.getShutdownReason() == ShutdownReason.TERMINATE) {
                checkpoint("shardEnded", input.getCheckpointer());
            } else {
                Events.tell("leaseLost", worker, shard);
            }
        }

        @Override
        public void shutdownRequested(IRecordProcessorCheckpointer checkpointer) {
            checkpoint("shutdownRequested", checkpointer);
        }

        private void checkpoint(String event, IRecordProcessorCheckpointer checkpointer) {
            try {
                checkpointer.checkpoint();
                Events.tell(event, worker, shard);
            } catch (Exception refused) {
                Events.tell(event, worker, shard, refused.getClass().getSimpleName());
            }
        }
    }
}
