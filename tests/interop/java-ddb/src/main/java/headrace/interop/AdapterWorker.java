package headrace.interop;

import com.amazonaws.services.dynamodbv2.streamsadapter.AmazonDynamoDBStreamsAdapterClient;
import com.amazonaws.services.dynamodbv2.streamsadapter.StreamsSchedulerFactory;
import com.amazonaws.services.dynamodbv2.streamsadapter.adapter.DynamoDBStreamsClientRecord;
import com.amazonaws.services.dynamodbv2.streamsadapter.model.DynamoDBStreamsProcessRecordsInput;
import com.amazonaws.services.dynamodbv2.streamsadapter.polling.DynamoDBStreamsPollingConfig;
import com.amazonaws.services.dynamodbv2.streamsadapter.processor.DynamoDBStreamsShardRecordProcessor;
import java.net.URI;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.cloudwatch.CloudWatchAsyncClient;
import software.amazon.awssdk.services.dynamodb.DynamoDbAsyncClient;
import software.amazon.awssdk.services.dynamodb.streams.DynamoDbStreamsClient;
import software.amazon.kinesis.common.ConfigsBuilder;
import software.amazon.kinesis.common.InitialPositionInStream;
import software.amazon.kinesis.common.InitialPositionInStreamExtended;
import software.amazon.kinesis.coordinator.Scheduler;
import software.amazon.kinesis.leases.LeaseManagementConfig;
import software.amazon.kinesis.lifecycle.events.InitializationInput;
import software.amazon.kinesis.lifecycle.events.LeaseLostInput;
import software.amazon.kinesis.lifecycle.events.ShardEndedInput;
import software.amazon.kinesis.lifecycle.events.ShutdownRequestedInput;
import software.amazon.kinesis.metrics.MetricsConfig;
import software.amazon.kinesis.metrics.MetricsLevel;
import software.amazon.kinesis.metrics.NullMetricsFactory;
import software.amazon.kinesis.processor.RecordProcessorCheckpointer;
import software.amazon.kinesis.retrieval.RetrievalConfig;

/**
 * One worker of a KCL application that reads a table's stream by AWS's adapter. Arguments: application, the stream's ARN, worker,
 * endpoint of DynamoDB and its streams.
 *
 * Each event is a line on standard output: milliseconds, event, worker, shard, and further values, separated by tabs. The worker
 * ends when its standard input is closed.
 */
public final class AdapterWorker {
    public static void main(String[] given) {
        String worker = given[2];
        Events.endWithInput();
        scheduler(given[0], given[1], worker, URI.create(given[3])).run();
    }

    private static Scheduler scheduler(String app, String stream, String worker, URI endpoint) {
        StaticCredentialsProvider anybody =
                StaticCredentialsProvider.create(AwsBasicCredentials.create("local", "local"));
        Region region = Region.US_EAST_1;
        AmazonDynamoDBStreamsAdapterClient adapter = new AmazonDynamoDBStreamsAdapterClient(
                DynamoDbStreamsClient.builder()
                        .endpointOverride(endpoint)
                        .region(region)
                        .credentialsProvider(anybody)
                        .overrideConfiguration(o -> o.addExecutionInterceptor(new LocalRegion(region)))
                        .build(),
                region);
        ConfigsBuilder configs = new ConfigsBuilder(
                StreamsSchedulerFactory.createSingleStreamTracker(
                        LocalRegion.toKnown(stream, region),
                        InitialPositionInStreamExtended.newInitialPosition(InitialPositionInStream.TRIM_HORIZON)),
                app,
                adapter,
                DynamoDbAsyncClient.builder()
                        .endpointOverride(endpoint)
                        .region(region)
                        .credentialsProvider(anybody)
                        .build(),
                CloudWatchAsyncClient.builder()
                        .endpointOverride(endpoint)
                        .region(region)
                        .credentialsProvider(anybody)
                        .build(),
                worker,
                () -> new Printing(worker));
        MetricsConfig metrics =
                configs.metricsConfig().metricsFactory(new NullMetricsFactory()).metricsLevel(MetricsLevel.NONE);
        LeaseManagementConfig lease = configs.leaseManagementConfig();
        lease.failoverTimeMillis(20_000).shardSyncIntervalMillis(1_000);
        RetrievalConfig retrieval = configs.retrievalConfig();
        retrieval.retrievalSpecificConfig(new DynamoDBStreamsPollingConfig(LocalRegion.toKnown(stream, region), adapter));
        return StreamsSchedulerFactory.createScheduler(
                configs.checkpointConfig(),
                configs.coordinatorConfig(),
                lease,
                configs.lifecycleConfig(),
                metrics,
                configs.processorConfig(),
                retrieval,
                adapter);
    }

    /** Prints sequence number and kind of every change, then checkpoints the batch. */
    private static final class Printing implements DynamoDBStreamsShardRecordProcessor {
        private final String worker;
        private String shard = "-";

        Printing(String worker) {
            this.worker = worker;
        }

        @Override
        public void initialize(InitializationInput input) {
            shard = input.shardId();
            Events.tell("initialize", worker, shard);
        }

        @Override
        public void processRecords(DynamoDBStreamsProcessRecordsInput input) {
            for (DynamoDBStreamsClientRecord record : input.records()) {
                Events.tell("record", worker, shard, record.sequenceNumber(), "0", record.getRecord().eventName());
            }
            if (!input.records().isEmpty()) {
                checkpoint("checkpoint", input.checkpointer());
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
}
