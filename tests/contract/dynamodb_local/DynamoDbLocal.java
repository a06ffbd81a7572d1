import com.amazonaws.services.dynamodbv2.local.server.LocalDynamoDBRequestHandler;
import com.amazonaws.services.dynamodbv2.local.server.LocalDynamoDBServerHandler;
import java.lang.reflect.Constructor;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import org.eclipse.jetty.server.NetworkConnector;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.handler.ContextHandler;

/**
 * AWS's DynamoDB Local in memory, bound to loopback (its own main listens on every address). Ends with its input.
 *
 * With its test control: a PutItem on the table [TEST_CONTROL] rolls the shards of streams over, or makes their records older. AWS's own
 * command line always leaves the control out, and its constructor isn't public.
 */
public final class DynamoDbLocal {
    public static void main(String[] arguments) throws Exception {
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
}
