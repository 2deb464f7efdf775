import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import net.rubyeye.xmemcached.aws.AWSElasticCacheClient;
import net.spy.memcached.BinaryConnectionFactory;
import net.spy.memcached.ClientMode;
import net.spy.memcached.ConnectionFactory;
import net.spy.memcached.DefaultConnectionFactory;
import net.spy.memcached.MemcachedClient;
import net.spy.memcached.config.NodeEndPoint;
import net.spy.memcached.ops.ConfigurationType;

/**
 * Java clients that discover the servers of a cluster: Discovery.java LIST PORT PORT PORT. The
 * servers on the ports read the file LIST, which names all of them.
 */
public final class Discovery {
    /** How often the clients ask for the list. The Java client begins after 5 s. */
    private static final long POLL_MS = 500;

    private final Path list;
    private final List<Integer> ports;

    private Discovery(Path list, List<Integer> ports) {
        this.list = list;
        this.ports = ports;
    }

    private static void check(String name, Callable<Boolean> condition) {
        String outcome = "not ok";
        String why = "";
        try {
            if (condition.call()) {
                outcome = "ok";
            }
        } catch (Exception e) {
            why = " (" + e + ")";
        }
        System.out.println(outcome + " - " + name + why);
    }

    private static boolean until(Callable<Boolean> holds) throws Exception {
        long deadline = System.nanoTime() + 20_000_000_000L;
        while (!holds.call() && System.nanoTime() < deadline) {
            Thread.sleep(100);
        }
        return holds.call();
    }

    /** Replaces the list in one step. */
    private void write(List<Integer> named) throws Exception {
        Path other = list.resolveSibling("new");
        var lines = named.stream().map(port -> "127.0.0.1:" + port).collect(Collectors.toList());
        Files.write(other, lines);
        Files.move(other, list, StandardCopyOption.ATOMIC_MOVE);
    }

    private InetSocketAddress configuration() {
        return new InetSocketAddress("127.0.0.1", ports.get(0));
    }

    private void amazon(String protocol, ConnectionFactory factory) throws Exception {
        String name = "amazon, " + protocol + ": ";
        var client = new MemcachedClient(factory, List.of(configuration()));
        Callable<List<Integer>> known = () -> client.getAllNodeEndPoints().stream()
            .map(NodeEndPoint::getPort).sorted().collect(Collectors.toList());
        check(name + "the servers of the list", () -> until(() -> known.call().equals(ports)));
        check(name + "the list", () -> {
            String body = (String) client.getConfig(configuration(), ConfigurationType.CLUSTER);
            return body.trim().split("\n")[1].split(" ").length == ports.size();
        });
        // Clients of old servers.
        check(name + "the list as an item", () -> {
            String key = ConfigurationType.CLUSTER.getValueWithNameSpace();
            String body = (String) client.get(key);
            return body.trim().split("\n")[1].split(" ").length == ports.size();
        });
        check(name + "what it stores, it reads", () -> {
            for (int key = 0; key < 300; key++) {
                client.set("key" + key, 0, key).get();
            }
            for (int key = 0; key < 300; key++) {
                if (!client.get("key" + key).equals(key)) {
                    return false;
                }
            }
            return true;
        });
        var fewer = ports.subList(0, 2);
        write(fewer);
        check(name + "a server leaves", () -> until(() -> known.call().equals(fewer)));
        Files.writeString(list, "127.0.0.1:");
        Thread.sleep(2000);
        check(name + "a broken list changes nothing", () -> known.call().equals(fewer));
        write(ports);
        check(name + "a server joins", () -> until(() -> known.call().equals(ports)));
        client.shutdown();
    }

    private void xmemcached() throws Exception {
        var client = new AWSElasticCacheClient(configuration(), POLL_MS);
        Callable<List<Integer>> known = () -> client.getAvailableServers().stream()
            .map(InetSocketAddress::getPort).sorted().collect(Collectors.toList());
        check("xmemcached: the servers of the list", () -> until(() -> known.call().equals(ports)));
        check("xmemcached: the version",
            () -> client.getConfig().getVersion() == client.getCurrentConfig().getVersion());
        check("xmemcached: what it stores, it reads", () -> {
            for (int key = 0; key < 300; key++) {
                client.set("key" + key, 0, key);
            }
            for (int key = 0; key < 300; key++) {
                if (!client.get("key" + key).equals(key)) {
                    return false;
                }
            }
            return true;
        });
        var fewer = ports.subList(0, 2);
        write(fewer);
        check("xmemcached: a server leaves", () -> until(() -> known.call().equals(fewer)));
        write(ports);
        check("xmemcached: a server joins", () -> until(() -> known.call().equals(ports)));
        client.shutdown();
    }

    public static void main(String[] args) throws Exception {
        System.setProperty("net.spy.log.LoggerImpl", "net.spy.memcached.compat.log.SunLogger");
        java.util.logging.LogManager.getLogManager().reset();
        var ports = new ArrayList<Integer>();
        Arrays.stream(args).skip(1).map(Integer::valueOf).sorted().forEach(ports::add);
        var discovery = new Discovery(Path.of(args[0]), ports);
        discovery.amazon("text", new DefaultConnectionFactory(ClientMode.Dynamic) {
            @Override
            public long getDynamicModePollingInterval() {
                return POLL_MS;
            }
        });
        discovery.amazon("binary", new BinaryConnectionFactory(ClientMode.Dynamic) {
            @Override
            public long getDynamicModePollingInterval() {
                return POLL_MS;
            }
        });
        discovery.xmemcached();
        System.out.println("done");
        System.exit(0);
    }
}
