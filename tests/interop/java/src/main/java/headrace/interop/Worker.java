package headrace.interop;

import java.lang.reflect.Method;
import java.net.URI;
import java.time.Instant;
import java.util.Date;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.awscore.client.builder.AwsAsyncClientBuilder;
import software.amazon.awssdk.awscore.client.builder.AwsClientBuilder;
import software.amazon.awssdk.http.Protocol;
import software.amazon.awssdk.http.nio.netty.NettyNioAsyncHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.cloudwatch.CloudWatchAsyncClient;
import software.amazon.awssdk.services.dynamodb.DynamoDbAsyncClient;
import software.amazon.awssdk.services.kinesis.KinesisAsyncClient;
import software.amazon.kinesis.common.ConfigsBuilder;
import software.amazon.kinesis.common.InitialPositionInStream;
import software.amazon.kinesis.common.InitialPositionInStreamExtended;
import software.amazon.kinesis.common.KinesisClientUtil;
import software.amazon.kinesis.coordinator.CoordinatorConfig;
import software.amazon.kinesis.coordinator.Scheduler;
import software.amazon.kinesis.leases.LeaseManagementConfig;
import software.amazon.kinesis.metrics.MetricsConfig;
import software.amazon.kinesis.metrics.MetricsLevel;
import software.amazon.kinesis.metrics.NullMetricsFactory;
import software.amazon.kinesis.processor.SingleStreamTracker;
import software.amazon.kinesis.retrieval.RetrievalConfig;
import software.amazon.kinesis.retrieval.polling.PollingConfig;

/**
 * One worker of a KCL application, for any version of the library. Arguments are name=value:
 * app, stream, worker, endpoint, position (TRIM_HORIZON, LATEST or milliseconds), table (default: app), retrieval (polling, or
 * default: that of the library, which is enhanced fan-out over HTTP/2), kinesis (the endpoint of Kinesis; default: endpoint), pause
 * (milliseconds a batch takes), stopAfter (records of each shard, see Processor), and any setter of the library's own configuration:
 * lease.failoverTimeMillis=20000, coordinator.coordinatorStateTableConfig.tableName=other.
 *
 * Each event is a line on standard output: milliseconds, event, worker, shard, and further values, separated by tabs.
 * The worker ends when its standard input is closed, so that it can't go on after the process that started it.
 */
public final class Worker {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> given = Events.named(arguments);
        String worker = given.get("worker");
        Scheduler scheduler = scheduler(given, worker);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(scheduler, worker)));
        Events.endWithInput();
        Events.tell("started", worker, "-");
        scheduler.run();
        Events.tell("ended", worker, "-");
    }

    private static Scheduler scheduler(Map<String, String> given, String worker) throws Exception {
        URI endpoint = URI.create(given.get("endpoint"));
        long stopAfter = given.containsKey("stopAfter") ? Long.parseLong(given.get("stopAfter")) : Long.MAX_VALUE;
        boolean isDefault = given.getOrDefault("retrieval", "polling").equals("default");
        KinesisAsyncClient kinesis = isDefault
                ? KinesisClientUtil.createKinesisAsyncClient(begun(
                        KinesisAsyncClient.builder(), URI.create(given.getOrDefault("kinesis", given.get("endpoint")))))
                : made(KinesisAsyncClient.builder(), endpoint);
        ConfigsBuilder configs = new ConfigsBuilder(
                new SingleStreamTracker(given.get("stream"), position(given.getOrDefault("position", "TRIM_HORIZON"))),
                given.get("app"),
                kinesis,
                made(DynamoDbAsyncClient.builder(), endpoint),
                made(CloudWatchAsyncClient.builder(), endpoint),
                worker,
                () -> new Processor(worker, Long.parseLong(given.getOrDefault("pause", "0")), stopAfter));
        configs.tableName(given.getOrDefault("table", given.get("app")));
        CoordinatorConfig coordinator = configs.coordinatorConfig();
        LeaseManagementConfig lease = configs.leaseManagementConfig();
        MetricsConfig metrics =
                configs.metricsConfig().metricsFactory(new NullMetricsFactory()).metricsLevel(MetricsLevel.NONE);
        RetrievalConfig retrieval = configs.retrievalConfig();
        if (!isDefault) {
            retrieval.retrievalSpecificConfig(new PollingConfig(given.get("stream"), kinesis));
        }
        Map<String, Object> rooms = Map.of("coordinator", coordinator, "lease", lease, "retrieval", retrieval);
        for (Map.Entry<String, String> entry : given.entrySet()) {
            int dot = entry.getKey().indexOf('.');
            if (dot > 0) {
                set(rooms.get(entry.getKey().substring(0, dot)), entry.getKey().substring(dot + 1), entry.getValue());
            }
        }
        return new Scheduler(
                configs.checkpointConfig(),
                coordinator,
                lease,
                configs.lifecycleConfig(),
                metrics,
                configs.processorConfig(),
                retrieval);
    }

    private static <B extends AwsAsyncClientBuilder<B, C> & AwsClientBuilder<B, C>, C> B begun(B builder, URI endpoint) {
        return builder.endpointOverride(endpoint)
                .region(Region.US_EAST_1)
                .credentialsProvider(StaticCredentialsProvider.create(AwsBasicCredentials.create("local", "local")));
    }

    private static <B extends AwsAsyncClientBuilder<B, C> & AwsClientBuilder<B, C>, C> C made(B builder, URI endpoint) {
        return begun(builder, endpoint)
                .httpClientBuilder(NettyNioAsyncHttpClient.builder().protocol(Protocol.HTTP1_1).maxConcurrency(100))
                .build();
    }

    private static InitialPositionInStreamExtended position(String text) {
        if (Character.isDigit(text.charAt(0))) {
            return InitialPositionInStreamExtended.newInitialPositionAtTimestamp(
                    Date.from(Instant.ofEpochMilli(Long.parseLong(text))));
        }
        return InitialPositionInStreamExtended.newInitialPosition(InitialPositionInStream.valueOf(text));
    }

    /** Versions differ in their setters, so a setter is looked up by name. */
    private static void set(Object config, String path, String value) throws Exception {
        int dot = path.indexOf('.');
        if (dot > 0) {
            set(config.getClass().getMethod(path.substring(0, dot)).invoke(config), path.substring(dot + 1), value);
            return;
        }
        for (Method method : config.getClass().getMethods()) {
            if (method.getName().equals(path) && method.getParameterCount() == 1) {
                method.setAccessible(true);
                method.invoke(config, read(method.getParameterTypes()[0], value));
                return;
            }
        }
        throw new IllegalArgumentException(config.getClass().getSimpleName() + " has no setter " + path);
    }

    private static Object read(Class<?> type, String value) {
        if (type.isEnum()) {
            for (Object constant : type.getEnumConstants()) {
                if (((Enum<?>) constant).name().equals(value)) {
                    return constant;
                }
            }
            throw new IllegalArgumentException(type.getSimpleName() + " has no " + value);
        }
        return switch (type.getSimpleName()) {
            case "long", "Long" -> (Object) Long.valueOf(value);
            case "int", "Integer" -> Integer.valueOf(value);
            case "boolean", "Boolean" -> Boolean.valueOf(value);
            default -> value;
        };
    }

    private static void stop(Scheduler scheduler, String worker) {
        Events.tell("stopping", worker, "-");
        try {
            Events.tell("stopped", worker, "-", scheduler.startGracefulShutdown().get(20, TimeUnit.SECONDS));
        } catch (Exception failure) {
            Events.tell("stopped", worker, "-", failure);
        }
    }
}
