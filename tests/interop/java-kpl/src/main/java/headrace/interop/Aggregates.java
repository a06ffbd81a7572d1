package headrace.interop;

import com.amazonaws.kinesis.agg.AggRecord;
import com.amazonaws.kinesis.agg.RecordAggregator;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;

/**
 * Prints aggregates that AWS's Java aggregator makes. Arguments: how many, and how many user records each has. A line has the
 * aggregate's partition key, its explicit hash key, and its bytes in hexadecimal digits, separated by tabs.
 *
 * User record m of aggregate n has the payload "java-n-m". All user records of an aggregate have the partition key "java-n", because
 * the aggregator doesn't know the shards' hash ranges; it gives each an explicit hash key.
 */
public final class Aggregates {
    public static void main(String[] arguments) throws Exception {
        int aggregates = Integer.parseInt(arguments[0]);
        int each = Integer.parseInt(arguments[1]);
        for (int n = 0; n < aggregates; n++) {
            RecordAggregator aggregator = new RecordAggregator();
            for (int m = 0; m < each; m++) {
                byte[] payload = ("java-" + n + "-" + m).getBytes(StandardCharsets.UTF_8);
                aggregator.addUserRecord("java-" + n, payload);
            }
            AggRecord made = aggregator.clearAndGet();
            String bytes = HexFormat.of().formatHex(made.toRecordBytes());
            System.out.println(made.getPartitionKey() + "\t" + made.getExplicitHashKey() + "\t" + bytes);
        }
    }
}
