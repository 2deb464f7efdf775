package chart

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"larder.test/manifests/kinds"
)

// client is a connection of the text protocol.
type client struct {
	t          *testing.T
	connection net.Conn
	lines      *bufio.Reader
}

// connect opens a connection to a port, or to a unix socket, with TLS and a login if the container
// demands them.
func connect(of *pod, network, address string) *client {
	of.t.Helper()
	connection, err := net.DialTimeout(network, address, patience)
	if err != nil {
		of.t.Fatal(err)
	}
	of.t.Cleanup(func() { connection.Close() })
	if slices.Contains(of.container.Args, "-Z") && network == "tcp" {
		config := of.secrets.client.Clone()
		config.ServerName = "127.0.0.1"
		connection = tls.Client(connection, config)
	}
	connection.SetDeadline(time.Now().Add(2 * patience))
	opened := &client{of.t, connection, bufio.NewReader(connection)}
	if slices.Contains(of.container.Args, "--users") {
		if refused := opened.ask("get k"); !strings.HasPrefix(refused, "CLIENT_ERROR") {
			of.t.Errorf("without a login: %q", refused)
		}
		login := user + " " + password
		opened.expect(fmt.Sprintf("set login 0 0 %d\r\n%s", len(login), login), "STORED")
	}
	return opened
}

func (of *pod) client() *client {
	of.t.Helper()
	return connect(of, "tcp", fmt.Sprintf("127.0.0.1:%d", of.port))
}

func (opened *client) ask(command string) string {
	opened.t.Helper()
	if _, err := fmt.Fprintf(opened.connection, "%s\r\n", command); err != nil {
		opened.t.Fatal(err)
	}
	line, err := opened.lines.ReadString('\n')
	if err != nil {
		opened.t.Fatalf("%s: %v", command, err)
	}
	return strings.TrimSpace(line)
}

func (opened *client) expect(command, expected string) {
	opened.t.Helper()
	if line := opened.ask(command); line != expected {
		opened.t.Fatalf("%s: %q, not %q", command, line, expected)
	}
}

func (opened *client) hasGreeting() bool {
	opened.t.Helper()
	line := opened.ask("mg greeting v")
	if line == "EN" {
		return false
	}
	value, err := opened.lines.ReadString('\n')
	if err != nil || line != "VA 5" || value != "hello\r\n" {
		opened.t.Fatalf("%q, %q, %v", line, value, err)
	}
	return true
}

// stopSignal is the signal of the image.
func stopSignal(t *testing.T) syscall.Signal {
	t.Helper()
	text, err := os.ReadFile(root + "/deploy/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^STOPSIGNAL SIGUSR1$`).Match(text) {
		t.Fatal("the stop signal of the image is no longer SIGUSR1")
	}
	return syscall.SIGUSR1
}

// Examples whose items survive: a restart of the container, and a new pod with the same volume.
var (
	survivesRestart = []string{"tier", "store", "dump", "discovery-names", "memory-file"}
	survivesRollout = []string{"tier", "store", "dump", "discovery-names"}
)

// TestEveryExampleRuns starts a server of each example with the rendered arguments, uses it, and
// stops it as the kubelet does. Then it starts the server again, and stops it by the signal for
// images without a stop signal. The third start is that of a new pod.
func TestEveryExampleRuns(t *testing.T) {
	for _, name := range examples(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, name, example(name))
		})
	}
	for name, with := range map[string]values{
		"tier without limit": append(example("tier"), set("persistence.restoreTtlSeconds=0")...),
		"tokens": set(`admin.existingSecret="tokens"`, `admin.role="read"`, "drain.graceSeconds=1",
			"config.verbosity=2", `config.maxItemSize="2m"`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, strings.Fields(name)[0], with)
		})
	}
}

func run(t *testing.T, name string, with values) {
	objects := rendered(t, with)
	set := only[apps.StatefulSet](t, objects)
	server := newServer(t, set, newSecrets(t))
	server.maps = kinds.Find[core.ConfigMap](objects)
	server.start()
	server.client().expect("set greeting 0 0 5\r\nhello", "STORED")
	if !server.client().hasGreeting() {
		t.Error("the item is missing")
	}
	server.checkAdmin()
	server.checkCluster()
	server.stop(stopSignal(t))

	server.start()
	if found := server.client().hasGreeting(); found != slices.Contains(survivesRestart, name) {
		t.Errorf("after a restart the item is found: %v", found)
	}
	server.stop(syscall.SIGTERM)

	server.replace()
	server.start()
	if found := server.client().hasGreeting(); found != slices.Contains(survivesRollout, name) {
		t.Errorf("after a rollout the item is found: %v", found)
	}
}

// checkAdmin: without a token the network may only probe, and read metrics.
func (of *pod) checkAdmin() {
	of.t.Helper()
	settings := 403
	if strings.Contains(strings.Join(of.container.Args, " "), "role=read") {
		// This test is on loopback, like kubectl port-forward.
		settings = 200
	}
	for path, expected := range map[string]int{"/metrics": 200, "/api/v1/settings": settings} {
		probe := &core.Probe{ProbeHandler: core.ProbeHandler{HTTPGet: &core.HTTPGetAction{Path: path}}}
		if status := of.probe(probe); status != expected {
			of.t.Errorf("%s: status %d, not %d", path, status, expected)
		}
	}
}

// checkCluster: with discovery, clients find the servers.
func (of *pod) checkCluster() {
	of.t.Helper()
	expected := ""
	for _, argument := range of.container.Args {
		if strings.HasPrefix(argument, "--cluster-dns=") {
			expected = fmt.Sprintf("127.0.0.1|%d", of.port)
		} else if strings.HasPrefix(argument, "--cluster-file=") {
			expected = "larder-2.larder.default.svc.cluster.local||11211"
		}
	}
	if expected == "" {
		return
	}
	client := of.client()
	fmt.Fprint(client.connection, "config get cluster\r\n")
	list := ""
	for !strings.HasSuffix(list, "END\r\n") {
		line, err := client.lines.ReadString('\n')
		if err != nil {
			of.t.Fatalf("config get cluster: %v\n%s", err, list)
		}
		list += line
	}
	if !strings.Contains(list, expected) {
		of.t.Errorf("%s is not in the list of servers:\n%s", expected, list)
	}
}

// TestTheDefaultsTakeTheirMemoryFromTheLimit runs the rendered -m, which other tests replace.
func TestTheDefaultsTakeTheirMemoryFromTheLimit(t *testing.T) {
	args := server(t, nil).Args
	if args[0] != "-m" || args[1] != "80%" {
		t.Fatalf("the arguments are %v", args)
	}
	arguments := append([]string{"--check"}, args[:6]...)
	if os.Geteuid() == 0 {
		arguments = append(arguments, "-u", "root")
	}
	output, err := exec.Command(program(t, "larderd", "LARDERD"), arguments...).CombinedOutput()
	if err != nil {
		t.Errorf("larderd %v: %v\n%s", arguments, err, output)
	}
}

// near returns the pod of the near caches of an example, from the DaemonSet or from the notes.
func near(t *testing.T, name string, objects []any) (core.PodSpec, core.Container) {
	t.Helper()
	if !strings.HasSuffix(name, "sidecar") {
		spec := only[apps.DaemonSet](t, objects).Spec.Template.Spec
		return spec, spec.Containers[0]
	}
	_, text, _ := strings.Cut(notes(t, example(name)), "\ninitContainers:\n")
	var spec core.PodSpec
	if err := yaml.UnmarshalStrict([]byte("initContainers:\n"+text), &spec); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	grace := int64(30)
	spec.TerminationGracePeriodSeconds = &grace
	return spec, spec.InitContainers[0]
}

// TestNearCachesFollowTheServers runs all servers of an example and a near cache.
func TestNearCachesFollowTheServers(t *testing.T) {
	for _, name := range []string{"near-daemonset", "near-socket", "near-sidecar", "near-secure"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := rendered(t, example(name))
			set := only[apps.StatefulSet](t, objects)
			with := newSecrets(t)
			spec, container := near(t, name, objects)
			copies := newPod(t, spec, container, with)
			for number := range *set.Spec.Replicas {
				server := newServer(t, set, with)
				server.start()
				address := fmt.Sprintf("%s-%d.%s.default.svc.cluster.local:11211", set.Name, number, set.Name)
				copies.origins[address] = fmt.Sprintf("127.0.0.1:%d", server.port)
			}
			if arguments := strings.Join(copies.arguments(), " "); strings.Contains(arguments, "cluster.local") {
				t.Fatalf("an origin is not a pod: %s", arguments)
			}
			copies.start()
			follow(t, copies)
			copies.stop(stopSignal(t))
		})
	}
}

func follow(t *testing.T, copies *pod) {
	t.Helper()
	var clients []*client
	if at := slices.Index(copies.container.Args, "-l"); at >= 0 {
		path := filepath.Join(copies.folder, "run/larder-near/larder.sock")
		clients = append(clients, connect(copies, "unix", path))
	}
	if slices.ContainsFunc(copies.container.Ports, func(of core.ContainerPort) bool {
		return of.Name == "memcached"
	}) {
		clients = append(clients, copies.client())
	}
	if len(clients) == 0 {
		t.Fatal("the near cache has no listener")
	}
	for _, client := range clients {
		client.expect("set greeting 0 0 5\r\nhello", "STORED")
		if !client.hasGreeting() {
			t.Error("the item is missing")
		}
	}
	deadline := time.Now().Add(patience)
	for state := ""; state != "copies"; {
		if state = clients[0].stat("larder", "near_state"); time.Now().After(deadline) {
			t.Fatalf("near_state is %q\n%s", state, copies.output)
		}
	}
	if count := clients[0].stat("larder", "near_origins"); count != "" && count != "3" {
		t.Errorf("%s origins, not 3", count)
	}
}

// stat returns a row of a table of statistics.
func (opened *client) stat(table, name string) string {
	opened.t.Helper()
	value := ""
	for line := opened.ask("stats " + table); line != "END"; {
		if words := strings.Fields(line); len(words) == 3 && words[1] == name {
			value = words[2]
		}
		next, err := opened.lines.ReadString('\n')
		if err != nil {
			opened.t.Fatal(err)
		}
		line = strings.TrimSpace(next)
	}
	return value
}
