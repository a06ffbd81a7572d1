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
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * One worker of an application of KCL 1.x. Arguments and events are those of the worker in ../java, as far as 1.x has them:
 * app, stream, worker, endpoint, position (TRIM_HORIZON or LATEST) and lease.failoverTimeMillis.
 */
public final class Worker {
    private static final PrintStream OUT = System.out;

    public static void main(String[] arguments) throws Exception {
        Map<String, String> given = new LinkedHashMap<>();
        for (String argument : arguments) {
            int at = argument.indexOf('=');
            given.put(argument.substring(0, at), argument.substring(at + 1));
        }
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
        Thread watch = new Thread(Worker::endWithInput);
        watch.setDaemon(true);
        watch.start();
        tell("started", name, "-");
        worker.run();
        tell("ended", name, "-");
    }

    static synchronized void tell(String event, String worker, String shard, Object... more) {
        StringBuilder line = new StringBuilder();
        line.append(System.currentTimeMillis()).append('\t').append(event);
        line.append('\t').append(worker).append('\t').append(shard);
        for (Object item : more) {
            line.append('\t').append(item);
        }
        OUT.println(line);
        OUT.flush();
    }

    private static void stop(com.amazonaws.services.kinesis.clientlibrary.lib.worker.Worker worker, String name) {
        tell("stopping", name, "-");
        try {
            tell("stopped", name, "-", worker.startGracefulShutdown().get(20, TimeUnit.SECONDS));
        } catch (Exception failure) {
            tell("stopped", name, "-", failure);
        }
    }

    private static void endWithInput() {
        try {
            while (System.in.read() >= 0) {
                continue;
            }
        } catch (java.io.IOException gone) {
            // Nothing to do: the stream is closed.
        }
        Runtime.getRuntime().halt(0);
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
            tell("initialize", worker, shard, input.getExtendedSequenceNumber().getSequenceNumber());
        }

        @Override
        public void processRecords(ProcessRecordsInput input) {
            if (input.getRecords().isEmpty()) {
                return;
            }
            for (Record record : input.getRecords()) {
                String data = StandardCharsets.UTF_8.decode(record.getData()).toString();
                tell("record", worker, shard, record.getSequenceNumber(), 0, data);
            }
            checkpoint("checkpoint", input.getCheckpointer());
        }

        @Override
        public void shutdown(ShutdownInput input) {
            if (input.getShutdownReason() == ShutdownReason.TERMINATE) {
                checkpoint("shardEnded", input.getCheckpointer());
            } else {
                tell("leaseLost", worker, shard);
            }
        }

        @Override
        public void shutdownRequested(IRecordProcessorCheckpointer checkpointer) {
            checkpoint("shutdownRequested", checkpointer);
        }

        private void checkpoint(String event, IRecordProcessorCheckpointer checkpointer) {
            try {
                checkpointer.checkpoint();
                tell(event, worker, shard);
            } catch (Exception refused) {
                tell(event, worker, shard, refused.getClass().getSimpleName());
            }
        }
    }
}
