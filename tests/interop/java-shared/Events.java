package headrace.interop;

import java.io.PrintStream;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * What each worker tells and is told. The folders of the workers have links to this file, because each is built on a library of
 * its own.
 */
final class Events {
    // Kept: a library may put another stream in its place.
    private static final PrintStream OUT = System.out;

    /** The arguments, which are name=value. */
    static Map<String, String> named(String[] arguments) {
        Map<String, String> given = new LinkedHashMap<>();
        for (String argument : arguments) {
            int at = argument.indexOf('=');
            given.put(argument.substring(0, at), argument.substring(at + 1));
        }
        return given;
    }

    /** Prints an event as a line: milliseconds, event, worker, shard, and further values, separated by tabs. */
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

    /** Lets this process end once its standard input is closed, so that it can't go on after the process that started it. */
    static void endWithInput() {
        Thread watch = new Thread(Events::awaitEnd);
        watch.setDaemon(true);
        watch.start();
    }

    private static void awaitEnd() {
        try {
            while (System.in.read() >= 0) {
                continue;
            }
        } catch (java.io.IOException gone) {
            // Nothing to do: the stream is closed.
        }
        Runtime.getRuntime().halt(0);
    }
}
