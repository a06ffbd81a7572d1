import com.amazonaws.services.dynamodbv2.local.server.LocalDynamoDBRequestHandler;
import com.amazonaws.services.dynamodbv2.local.server.LocalDynamoDBServerHandler;
import com.amazonaws.services.dynamodbv2.local.shared.access.LocalDBUtils;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import org.eclipse.jetty.server.NetworkConnector;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.handler.ContextHandler;
import sun.misc.Unsafe;

/**
 * AWS's DynamoDB Local in memory, bound to loopback (its own main listens on every address). Ends with its input.
 *
 * With its test control: a PutItem on the table [TEST_CONTROL] rolls the shards of streams over, or makes their records older. AWS's own
 * command line always leaves the control out, and its constructor isn't public.
 *
 * Items whose time to live is over are deleted by its own job, which looks at 20 items and then sleeps. It sleeps 50 ms here instead of
 * 10 s, with which a pass over 10,000 items would take 83 minutes.
 */
public final class DynamoDbLocal {
    private static final long MILLISECONDS_BETWEEN_TWO_LOOKS_FOR_EXPIRED_ITEMS = 50;

    public static void main(String[] arguments) throws Exception {
        lookForExpiredItemsSooner();
        Server server = new Server(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
        ContextHandler everywhere = new ContextHandler("/");
        Constructor<LocalDynamoDBRequestHandler> withControl = LocalDynamoDBRequestHandler.class.getDeclaredConstructor(
                int.class, boolean.class, String.class, boolean.class, boolean.class, boolean.class);
        withControl.setAccessible(true);
        everywhere.setHandler(
                new LocalDynamoDBServerHandler(withControl.newInstance(0, true, null, true, false, true), null));
        server.setHandler(everywhere);
        server.start();
        System.out.println("port " + ((NetworkConnector) server.getConnectors()[0]).getLocalPort());
        while (System.in.read() >= 0) {}
        System.exit(0);
    }

    /** The constant has no option, and Java's reflection changes no final field of a class. */
    private static void lookForExpiredItemsSooner() throws ReflectiveOperationException {
        Field self = Unsafe.class.getDeclaredField("theUnsafe");
        self.setAccessible(true);
        Unsafe memory = (Unsafe) self.get(null);
        Field pause = LocalDBUtils.class.getDeclaredField("ITEM_EXPIRY_DELAY_BETWEEN_DELETION");
        memory.ensureClassInitialized(LocalDBUtils.class);
        memory.putLong(
                memory.staticFieldBase(pause),
                memory.staticFieldOffset(pause),
                MILLISECONDS_BETWEEN_TWO_LOOKS_FOR_EXPIRED_ITEMS);
    }
}
