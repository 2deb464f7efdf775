package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"larder.test/manifests/kinds"
)

const plain = root + "/deploy/kubernetes"

// plainObjects returns the objects of the manifests for kubectl.
func plainObjects(t *testing.T) []any {
	t.Helper()
	paths, err := filepath.Glob(plain + "/*.yaml")
	if err != nil || len(paths) != 2 {
		t.Fatalf("manifests in %s: %v, %v", plain, paths, err)
	}
	var all []any
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := kinds.DecodeAll(text)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, objects...)
		if output, err := conform(t, string(text)); err != nil {
			t.Errorf("%s: %v\n%s", path, err, output)
		}
	}
	return all
}

// TestThePlainManifestsAreTheDefaultsOfTheChart: with LARDER_BLESS=1 it writes them.
func TestThePlainManifestsAreTheDefaultsOfTheChart(t *testing.T) {
	into := t.TempDir()
	if os.Getenv("LARDER_BLESS") == "1" {
		into = plain
	}
	command := exec.Command(folder+"/plain.sh", into)
	command.Env = append(os.Environ(), "HELM="+tool(t, os.Getenv("HELM")))
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("plain.sh: %v\n%s", err, output)
	}
	for _, name := range []string{"larder.yaml", "servicemonitor.yaml"} {
		expected, err := os.ReadFile(filepath.Join(into, name))
		if err != nil {
			t.Fatal(err)
		}
		if actual, err := os.ReadFile(filepath.Join(plain, name)); string(actual) != string(expected) {
			t.Errorf("%s/%s differs from the chart (%v): run deploy/helm/plain.sh", plain, name, err)
		}
	}
}

func TestHelmDoesNotManageThePlainManifests(t *testing.T) {
	for _, object := range kinds.Find[core.Service](plainObjects(t)) {
		for name := range object.Labels {
			if strings.Contains(name, "helm") || strings.Contains(name, "managed-by") {
				t.Errorf("service %s has the label %s", object.Name, name)
			}
		}
	}
}

// TestTheMonitorScrapesEachServerOnce: it selects one Service, whose port exists.
func TestTheMonitorScrapesEachServerOnce(t *testing.T) {
	objects := plainObjects(t)
	pod := only[apps.StatefulSet](t, objects).Spec.Template
	monitor := only[monitoring.ServiceMonitor](t, objects).Spec
	selected := 0
	for _, service := range kinds.Find[core.Service](objects) {
		for _, port := range service.Spec.Ports {
			if !hasPort(pod.Spec, port.TargetPort.StrVal) {
				t.Errorf("service %s: the pods have no port %v", service.Name, port.TargetPort)
			}
		}
		if !labels.SelectorFromSet(monitor.Selector.MatchLabels).Matches(labels.Set(service.Labels)) {
			continue
		}
		selected++
		isScraped := func(port core.ServicePort) bool { return port.Name == monitor.Endpoints[0].Port }
		if !slices.ContainsFunc(service.Spec.Ports, isScraped) {
			t.Errorf("service %s lacks the port of the monitor", service.Name)
		}
	}
	if selected != 1 {
		t.Errorf("the monitor selects %d services", selected)
	}
}

func hasPort(pod core.PodSpec, name string) bool {
	ports := pod.Containers[0].Ports
	return slices.ContainsFunc(ports, func(port core.ContainerPort) bool { return port.Name == name })
}

func TestProbesAskThePortOfAdmin(t *testing.T) {
	pod := only[apps.StatefulSet](t, plainObjects(t)).Spec.Template.Spec
	container := pod.Containers[0]
	// /ready fails until a log on disk is read, so only /health may end a long start.
	for path, probe := range map[string]*core.Probe{
		"/health": container.StartupProbe, "/ready": container.ReadinessProbe,
	} {
		if probe.HTTPGet.Path != path || !hasPort(pod, probe.HTTPGet.Port.StrVal) {
			t.Errorf("the probe of %s is %v", path, probe)
		}
	}
	if container.LivenessProbe.HTTPGet.Path != "/health" {
		t.Errorf("the liveness probe is %v", container.LivenessProbe)
	}
}

// number returns the number that a pattern matches in a file.
func number(t *testing.T, path, pattern string) int64 {
	t.Helper()
	text, err := os.ReadFile(root + path)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(pattern).FindSubmatch(text)
	if found == nil {
		t.Fatalf("%s has no %s", path, pattern)
	}
	number, err := strconv.ParseInt(string(found[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// TestTheStopHasTimeForTheDisk compares the unit of systemd and the values with the default of
// larderd.
func TestTheStopHasTimeForTheDisk(t *testing.T) {
	secs := number(t, "/docs/options.md", `--tier-stop-secs=<num>.*\| .(\d+). \|`)
	chosen := argument(t, server(t, example("tier")), "--tier-stop-secs")
	if chosen != strconv.FormatInt(secs, 10) {
		t.Errorf("the chart waits %s s for the disk, larderd %d s", chosen, secs)
	}
	for _, path := range []string{"/packaging/debian/larderd.service", "/docs/operating.md"} {
		if limit := number(t, path, `TimeoutStopSec=(\d+)\n`); limit <= secs {
			t.Errorf("%s: %d s are not above %d s", path, limit, secs)
		}
	}
}

// TestTheChartIsOfThisVersion: the tag of the image is the appVersion of the chart.
func TestTheChartIsOfThisVersion(t *testing.T) {
	version := func(path, pattern string) string {
		text, err := os.ReadFile(root + path)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(pattern).FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s has no %s", path, pattern)
		}
		return string(found[1])
	}
	crates := version("/Cargo.toml", `(?m)^version = "(.*)"$`)
	if chart := version("/deploy/helm/Chart.yaml", `(?m)^appVersion: (.*)$`); chart != crates {
		t.Errorf("the appVersion is %s, and Cargo.toml has %s", chart, crates)
	}
}
