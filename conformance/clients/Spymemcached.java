import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import net.spy.memcached.BinaryConnectionFactory;
import net.spy.memcached.CASResponse;
import net.spy.memcached.CASValue;
import net.spy.memcached.ConnectionFactory;
import net.spy.memcached.DefaultConnectionFactory;
import net.spy.memcached.MemcachedClient;
import net.spy.memcached.internal.OperationFuture;
import net.spy.memcached.transcoders.SerializingTranscoder;

/** The operations of a Java program with spymemcached, in both of its protocols. */
public final class Spymemcached {
    private final String context;
    private final MemcachedClient client;

    private Spymemcached(String context, ConnectionFactory factory, int port) throws IOException {
        this.context = context;
        this.client = new MemcachedClient(factory, List.of(new InetSocketAddress("127.0.0.1", port)));
        ((SerializingTranscoder) client.getTranscoder()).setCompressionThreshold(1 << 30);
    }

    private void check(String name, Callable<Boolean> condition) {
        String outcome = "not ok";
        String why = "";
        try {
            if (condition.call()) {
                outcome = "ok";
            }
        } catch (Exception e) {
            why = " (" + e + ")";
        }
        System.out.println(outcome + " - " + context + ": " + name + why);
    }

    private void values() {
        var number = Long.MIN_VALUE;
        check("long", () -> client.set("value", 0, number).get() && client.get("value").equals(number));
        var text = "\0\r\nEND\r\n\u00e9";
        check("text", () -> client.set("value", 0, text).get() && client.get("value").equals(text));
        var list = new ArrayList<>(List.of(1, "two"));
        check("object", () -> client.set("value", 0, list).get() && client.get("value").equals(list));
        for (int size : new int[] {0, 1, 1023, 1024, 16384, 65536, 1000000}) {
            var bytes = new byte[size];
            new Random(size).nextBytes(bytes);
            check("value of " + size + " bytes",
                () -> client.set("sized", 0, bytes).get() && Arrays.equals((byte[]) client.get("sized"), bytes));
        }
        check("too large", () -> {
            OperationFuture<Boolean> set = client.set("sized", 0, new byte[1048570]);
            try {
                return !set.get() && client.get("sized") == null;
            } catch (java.util.concurrent.ExecutionException refused) {
                return client.get("sized") == null;
            }
        });
        var key = "k".repeat(250);
        check("key of 250 bytes", () -> client.set(key, 0, "v").get() && client.get(key).equals("v"));
    }

    private void conditions() {
        check("replace of nothing", () -> !client.replace("c", 0, "a").get());
        check("add", () -> client.add("c", 0, "a").get() && !client.add("c", 0, "b").get());
        check("replace", () -> client.replace("c", 0, "b").get() && client.get("c").equals("b"));
        check("cas", () -> {
            CASValue<Object> token = client.gets("c");
            return client.cas("c", token.getCas(), "c") == CASResponse.OK
                && client.cas("c", token.getCas(), "d") == CASResponse.EXISTS
                && client.cas("nothing", token.getCas(), "d") == CASResponse.NOT_FOUND;
        });
        check("append", () -> client.append("c", "d").get() && client.get("c").equals("cd"));
        check("prepend", () -> client.prepend("c", "b").get() && client.get("c").equals("bcd"));
        check("append to nothing", () -> !client.append("nothing", "x").get());
        check("delete", () -> client.delete("c").get() && client.get("c") == null && !client.delete("c").get());
    }

    private void numbers() {
        check("incr of nothing", () -> client.incr("n", 1) == -1);
        check("incr from a start", () -> client.incr("n", 1, 10) == 10 && client.incr("n", 5) == 15);
        check("decr", () -> client.decr("n", 20) == 0);
        check("asyncIncr", () -> client.asyncIncr("n", 7).get() == 7);
    }

    private void many() {
        check("bulk", () -> {
            Map<String, Object> values = new HashMap<>();
            List<OperationFuture<Boolean>> sets = new ArrayList<>();
            for (int i = 0; i < 1000; i++) {
                values.put("many:" + i, "value " + i);
                sets.add(client.set("many:" + i, 0, "value " + i));
            }
            for (var set : sets) {
                if (!set.get()) {
                    return false;
                }
            }
            var keys = new ArrayList<>(values.keySet());
            keys.add("nothing");
            return client.getBulk(keys).equals(values);
        });
        check("pipelined gets", () -> {
            List<java.util.concurrent.Future<Object>> gets = new ArrayList<>();
            for (int i = 0; i < 1000; i++) {
                gets.add(client.asyncGet("many:" + i));
            }
            for (int i = 0; i < 1000; i++) {
                if (!("value " + i).equals(gets.get(i).get())) {
                    return false;
                }
            }
            return true;
        });
    }

    private void times(boolean binary) throws InterruptedException {
        client.set("short", 1, "v");
        client.set("touched", 1, "v");
        client.set("got", 1, "v");
        check("touch", () -> client.touch("touched", 100).get());
        check("touch of nothing", () -> !client.touch("nothing", 100).get());
        if (binary) {
            // The client refuses it in the text protocol.
            check("get and touch", () -> client.getAndTouch("got", 100).getValue().equals("v"));
        }
        Thread.sleep(2100);
        check("expired", () -> client.get("short") == null);
        check("not expired", () -> client.get("touched").equals("v"));
        if (binary) {
            check("not expired after get and touch", () -> client.get("got").equals("v"));
        }
    }

    private void server() {
        check("version", () -> client.getVersions().values().iterator().next().matches("\\d+\\.\\d+\\.\\d+"));
        check("stats", () -> Long.parseLong(client.getStats().values().iterator().next().get("curr_items")) > 0);
        check("stats settings", () -> client.getStats("settings").values().iterator().next().containsKey("maxbytes"));
        check("flush", () -> client.flush().get() && client.get("n") == null);
    }

    private void play(boolean binary) throws InterruptedException {
        values();
        conditions();
        numbers();
        many();
        times(binary);
        server();
        client.shutdown(1, TimeUnit.SECONDS);
    }

    public static void main(String[] arguments) throws Exception {
        System.setProperty("net.spy.log.LoggerImpl", "net.spy.memcached.compat.log.SunLogger");
        java.util.logging.Logger.getLogger("net.spy.memcached").setLevel(java.util.logging.Level.OFF);
        int port = Integer.parseInt(arguments[0]);
        new Spymemcached("text", new DefaultConnectionFactory(), port).play(false);
        new Spymemcached("binary", new BinaryConnectionFactory(), port).play(true);
        System.out.println("done");
    }
}
