package chart

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
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
)

const patience = 20 * time.Second

// program returns the path of larderd or larder.
func program(t *testing.T, name, variable string) string {
	t.Helper()
	path, err := filepath.Abs(os.Getenv(variable))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		t.Fatalf("%s is not %s: run deploy/tests/helm.sh, which sets %s", path, name, variable)
	}
	return path
}

// pod runs the container of a pod on this machine: with its arguments, its secrets, and its folders
// below a temporary one.
type pod struct {
	t         *testing.T
	spec      core.PodSpec
	container core.Container
	// maps are the ConfigMaps of the release.
	maps []*core.ConfigMap
	// claims are the names of the volumes that outlive the pod.
	claims  []string
	secrets secrets
	folder  string
	// ports are those of clients and of the admin listener.
	port, admin int
	// origins are addresses of servers by their names in the cluster.
	origins map[string]string

	process *exec.Cmd
	output  *bytes.Buffer
	ended   chan error
}

func newPod(t *testing.T, spec core.PodSpec, container core.Container, with secrets) *pod {
	t.Helper()
	// Not t.TempDir: the path of a unix socket has at most 107 bytes.
	folder, err := os.MkdirTemp("", "larder")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	of := &pod{
		t: t, spec: spec, container: container, secrets: with, folder: folder,
		port: freePort(t), admin: freePort(t), origins: map[string]string{},
	}
	return of
}

// newServer returns a pod of the StatefulSet.
func newServer(t *testing.T, set *apps.StatefulSet, with secrets) *pod {
	t.Helper()
	spec := set.Spec.Template.Spec
	of := newPod(t, spec, spec.Containers[0], with)
	for _, claim := range set.Spec.VolumeClaimTemplates {
		of.claims = append(of.claims, claim.Name)
	}
	return of
}

// replace removes the files that a new pod does not have: all except those on claimed volumes.
func (of *pod) replace() {
	of.t.Helper()
	for _, mount := range of.container.VolumeMounts {
		if !slices.Contains(of.claims, mount.Name) {
			if err := os.RemoveAll(filepath.Join(of.folder, mount.MountPath)); err != nil {
				of.t.Fatal(err)
			}
		}
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// mount makes the folders of the container. Each must be the mount of a volume that exists.
func (of *pod) mount() {
	of.t.Helper()
	volumes := map[string]core.Volume{}
	for _, claim := range of.claims {
		volumes[claim] = core.Volume{Name: claim}
	}
	for _, volume := range of.spec.Volumes {
		volumes[volume.Name] = volume
	}
	for _, mount := range of.container.VolumeMounts {
		volume, ok := volumes[mount.Name]
		if !ok {
			of.t.Fatalf("there is no volume %s", mount.Name)
		}
		folder := filepath.Join(of.folder, mount.MountPath)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			of.t.Fatal(err)
		}
		if volume.ConfigMap != nil {
			of.configure(folder, volume.ConfigMap.Name)
		}
		if volume.Secret != nil && len(files(of.t, folder)) == 0 {
			for _, item := range volume.Secret.Items {
				of.secrets.write(of.t, folder, item.Path)
			}
		}
	}
}

// configure writes the files of a ConfigMap.
func (of *pod) configure(folder, name string) {
	of.t.Helper()
	at := slices.IndexFunc(of.maps, func(found *core.ConfigMap) bool { return found.Name == name })
	if at < 0 {
		of.t.Fatalf("there is no ConfigMap %s", name)
	}
	for file, text := range of.maps[at].Data {
		if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o644); err != nil {
			of.t.Fatal(err)
		}
	}
}

func files(t *testing.T, folder string) []os.DirEntry {
	t.Helper()
	found, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// percentage matches a part of the memory limit: some containers allocate all of it at the start.
var percentage = regexp.MustCompile(`^\d+%$`)

// paths are the folders that the chart mounts.
var paths = []string{"/run/larder-near", "/run/larder/", "/etc/larder/", "/data/", "/cache/"}

// arguments are those of the container, with the paths, ports and names of this machine.
func (of *pod) arguments() []string {
	arguments := []string{"-p", fmt.Sprint(of.port)}
	hasAddress := false
	for index, argument := range of.container.Args {
		before := ""
		if index > 0 {
			before = of.container.Args[index-1]
		}
		for _, path := range paths {
			argument = strings.ReplaceAll(argument, path, of.folder+path)
		}
		for name, address := range of.origins {
			argument = strings.ReplaceAll(argument, name, address)
		}
		switch {
		case before == "-m" && percentage.MatchString(argument):
			argument = "64"
		case before == "-p":
			argument = fmt.Sprint(of.port)
		case before == "--tier-size":
			argument = "64m"
		case before == "--admin-listen":
			argument = strings.Replace(argument, "*:9150", fmt.Sprintf("127.0.0.1:%d", of.admin), 1)
		case before == "-l":
			argument, hasAddress = strings.Replace(argument, "*", "127.0.0.1", 1), true
		case strings.HasPrefix(argument, "--cluster-dns="):
			argument = fmt.Sprintf("--cluster-dns=localhost:%d", of.port)
		}
		arguments = append(arguments, argument)
	}
	if !hasAddress {
		arguments = append(arguments, "-l", "127.0.0.1")
	}
	if os.Geteuid() == 0 {
		arguments = append(arguments, "-u", "root")
	}
	return arguments
}

// start runs larderd until it is ready, as the kubelet judges it.
func (of *pod) start() {
	of.t.Helper()
	of.mount()
	of.output = new(bytes.Buffer)
	of.process = exec.Command(program(of.t, "larderd", "LARDERD"), of.arguments()...)
	// The variables of the image: the arguments must override them.
	of.process.Env = append(os.Environ(), "LARDER_ADMIN_LISTEN=0.0.0.0:9150;/run/larder/admin.sock")
	of.process.Stdout, of.process.Stderr = of.output, of.output
	if err := of.process.Start(); err != nil {
		of.t.Fatal(err)
	}
	ended := make(chan error, 1)
	process := of.process
	go func() { ended <- process.Wait() }()
	of.ended = ended
	of.t.Cleanup(func() { process.Process.Kill() })
	of.await("startup", of.container.StartupProbe)
	of.await("readiness", of.container.ReadinessProbe)
}

func (of *pod) await(name string, probe *core.Probe) {
	of.t.Helper()
	deadline := time.Now().Add(patience)
	for of.probe(probe) != http.StatusOK {
		select {
		case err := <-of.ended:
			of.t.Fatalf("larderd %v ends: %v\n%s", of.arguments(), err, of.output)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			of.t.Fatalf("the %s probe fails:\n%s", name, of.output)
		}
	}
}

// probe returns the status with which the admin port answers a probe, or 0.
func (of *pod) probe(probe *core.Probe) int {
	client := http.Client{Timeout: time.Second}
	url := fmt.Sprintf("http://127.0.0.1:%d%s", of.admin, probe.HTTPGet.Path)
	response, err := client.Get(url)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// stop ends the pod as the kubelet does: preStop, then a signal, and both within the grace period.
func (of *pod) stop(signal syscall.Signal) {
	of.t.Helper()
	grace := time.Duration(*of.spec.TerminationGracePeriodSeconds) * time.Second
	within, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	command := of.container.Lifecycle.PreStop.Exec.Command
	hook := exec.CommandContext(within, program(of.t, command[0], "LARDER"), command[1:]...)
	hook.Env = append(os.Environ(), "LARDER_ADMIN="+filepath.Join(of.folder, "run/larder/admin.sock"))
	if output, err := hook.CombinedOutput(); err != nil {
		of.t.Errorf("preStop %v: %v\n%s\n%s", command, err, output, of.output)
	}
	if status := of.probe(of.container.ReadinessProbe); status != http.StatusServiceUnavailable {
		of.t.Errorf("after preStop /ready is %d", status)
	}
	if err := of.process.Process.Signal(signal); err != nil {
		of.t.Fatal(err)
	}
	select {
	case err := <-of.ended:
		if err != nil {
			of.t.Errorf("larderd ends after %v: %v\n%s", signal, err, of.output)
		}
	case <-within.Done():
		of.t.Errorf("larderd is still alive after %v\n%s", grace, of.output)
	}
}
