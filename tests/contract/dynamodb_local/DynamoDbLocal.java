import com.amazonaws.services.dynamodbv2.local.server.LocalDynamoDBRequestHandler;
import com.amazonaws.services.dynamodbv2.local.server.LocalDynamoDBServerHandler;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import org.eclipse.jetty.server.NetworkConnector;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.handler.ContextHandler;

/** AWS's DynamoDB Local in memory, bound to loopback (its own main listens on every address). Ends with its input. */
public final class DynamoDbLocal {
    public static void main(String[] arguments) throws Exception {
        Server server = new Server(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
        ContextHandler everywhere = new ContextHandler("/");
        everywhere.setHandler(
                new LocalDynamoDBServerHandler(new LocalDynamoDBRequestHandler(0, true, null, true, false), null));
        server.setHandler(everywhere);
        server.start();
        System.out.println("port " + ((NetworkConnector) server.getConnectors()[0]).getLocalPort());
        while (System.in.read() >= 0) {}
        System.exit(0);
    }
}
