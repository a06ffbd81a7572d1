package headrace.interop;

import com.google.common.util.concurrent.FutureCallback;
import com.google.common.util.concurrent.Futures;
import com.google.common.util.concurrent.MoreExecutors;
import java.io.IOException;
import java.io.PrintStream;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.kinesis.producer.KinesisProducer;
import software.amazon.kinesis.producer.KinesisProducerConfiguration;
import software.amazon.kinesis.producer.UserRecordResult;

/**
 * Puts user records by the real Kinesis Producer Library until its standard input is closed. Arguments: stream, port of a TLS
 * endpoint on 127.0.0.1, folder for the native producer, user records a second.
 *
 * For each user record it prints a line with values separated by tabs, once the library has told what became of it: "put", payload,
 * partition key, explicit hash key or "-", shard, sequence number, attempts; or "failed", payload, why. The last line is "ended".
 */
public final class Producer {
    private static final PrintStream OUT = System.out;
    private static final BigInteger HASH_KEYS = BigInteger.ONE.shiftLeft(128);
    private static final int KEYS = 101;
    private static final int TURN_MILLIS = 20;

    public static void main(String[] arguments) throws Exception {
        String stream = arguments[0];
        long aTurn = Long.parseLong(arguments[3]) * TURN_MILLIS / 1000;
        KinesisProducer producer = new KinesisProducer(configuration(Long.parseLong(arguments[1]), arguments[2]));
        Thread watch = new Thread(Producer::awaitEndOfInput);
        watch.start();
        for (long number = 0; watch.isAlive(); ) {
            for (long last = number + aTurn; number < last; number++) {
                put(producer, stream, number);
            }
            Thread.sleep(TURN_MILLIS);
        }
        producer.flushSync();
        tell("ended");
        producer.destroy();
        System.exit(0);
    }

    private static KinesisProducerConfiguration configuration(long port, String folder) {
        return new KinesisProducerConfiguration()
                .setKinesisEndpoint("127.0.0.1")
                .setKinesisPort(port)
                .setStsEndpoint("127.0.0.1")
                .setStsPort(port)
                .setVerifyCertificate(false)
                .setRegion("us-east-1")
                .setCredentialsProvider(StaticCredentialsProvider.create(AwsBasicCredentials.create("local", "local")))
                .setMetricsLevel("none")
                .setTempDirectory(folder)
                .setRecordMaxBufferedTime(200)
                .setRecordTtl(120_000);
    }

    private static void put(KinesisProducer producer, String stream, long number) {
        String payload = "u" + number;
        String key = "customer-" + number % KEYS;
        // A fifth of the user records has a hash key of its own, anywhere among all hash keys.
        String hash = number % 5 == 0
                ? HASH_KEYS.multiply(BigInteger.valueOf(number * 7919 % 10_000)).divide(BigInteger.valueOf(10_000)).toString()
                : null;
        ByteBuffer data = ByteBuffer.wrap(payload.getBytes(StandardCharsets.UTF_8));
        Futures.addCallback(
                producer.addUserRecord(stream, key, hash, data),
                new FutureCallback<UserRecordResult>() {
                    @Override
                    public void onSuccess(UserRecordResult done) {
                        tell("put", payload, key, hash == null ? "-" : hash, done.getShardId(), done.getSequenceNumber(),
                                done.getAttempts().size());
                    }

                    @Override
                    public void onFailure(Throwable why) {
                        tell("failed", payload, why);
                    }
                },
                MoreExecutors.directExecutor());
    }

    static synchronized void tell(Object... values) {
        StringBuilder line = new StringBuilder();
        for (Object value : values) {
            line.append(line.isEmpty() ? "" : "\t").append(value);
        }
        OUT.println(line);
        OUT.flush();
    }

    private static void awaitEndOfInput() {
        try {
            while (System.in.read() >= 0) {
                continue;
            }
        } catch (IOException gone) {
            // Nothing to do: the stream is closed.
        }
    }
}
