// Package manifests decodes the manifests of deploy/kubernetes strictly: a field that is unknown to
// Kubernetes or the Prometheus Operator fails the test.
package manifests

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	decoder "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const folder = "../../kubernetes"

// everything holds the contents of the manifests.
type everything struct {
	set      apps.StatefulSet
	budget   policy.PodDisruptionBudget
	monitor  monitoring.ServiceMonitor
	services []core.Service
}

func decode(t *testing.T) everything {
	t.Helper()
	paths, err := filepath.Glob(folder + "/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no manifests in %s: %v", folder, err)
	}
	var all everything
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		reader := decoder.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
		for {
			document, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if err := all.add(document); err != nil {
				t.Fatalf("%s: %v\n%s", path, err, document)
			}
		}
	}
	return all
}

// add decodes one document into the type of its kind.
func (all *everything) add(document []byte) error {
	var kind meta.TypeMeta
	if err := yaml.Unmarshal(document, &kind); err != nil {
		return err
	}
	switch kind.APIVersion + " " + kind.Kind {
	case "apps/v1 StatefulSet":
		return yaml.UnmarshalStrict(document, &all.set)
	case "policy/v1 PodDisruptionBudget":
		return yaml.UnmarshalStrict(document, &all.budget)
	case "monitoring.coreos.com/v1 ServiceMonitor":
		return yaml.UnmarshalStrict(document, &all.monitor)
	case "v1 Service":
		var service core.Service
		err := yaml.UnmarshalStrict(document, &service)
		all.services = append(all.services, service)
		return err
	}
	return errors.New("unexpected kind: " + kind.APIVersion + " " + kind.Kind)
}

func TestManifestsDecodeStrictly(t *testing.T) {
	all := decode(t)
	if all.set.Name == "" || all.budget.Name == "" || all.monitor.Name == "" {
		t.Error("a manifest is missing")
	}
	if len(all.services) != 2 {
		t.Errorf("%d services, not 2", len(all.services))
	}
}

func TestAnUnknownFieldIsRefused(t *testing.T) {
	text, err := os.ReadFile(folder + "/larder.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range strings.Split(string(text), "\n---\n") {
		wrong := strings.Replace(document, "\nspec:\n", "\nspec:\n  replica: 3\n", 1)
		if err := new(everything).add([]byte(wrong)); err == nil {
			t.Errorf("the field replica is accepted in:\n%s", document)
		}
	}
}

func TestSelectorsFindThePods(t *testing.T) {
	all := decode(t)
	pod := labels.Set(all.set.Spec.Template.Labels)
	for _, selector := range []*meta.LabelSelector{all.set.Spec.Selector, all.budget.Spec.Selector} {
		if found, err := meta.LabelSelectorAsSelector(selector); err != nil || !found.Matches(pod) {
			t.Errorf("%v does not select the pods (%v)", selector, err)
		}
	}
	selected := 0
	monitored, err := meta.LabelSelectorAsSelector(&all.monitor.Spec.Selector)
	if err != nil {
		t.Fatal(err)
	}
	for _, service := range all.services {
		if !labels.SelectorFromSet(service.Spec.Selector).Matches(pod) {
			t.Errorf("service %s does not select the pods", service.Name)
		}
		for _, port := range service.Spec.Ports {
			if !hasPort(all.set, port.TargetPort.StrVal) {
				t.Errorf("service %s: the pods have no port %v", service.Name, port.TargetPort)
			}
		}
		if monitored.Matches(labels.Set(service.Labels)) {
			selected++
			port := func(port core.ServicePort) bool {
				return port.Name == all.monitor.Spec.Endpoints[0].Port
			}
			if !slices.ContainsFunc(service.Spec.Ports, port) {
				t.Errorf("service %s lacks the port of the monitor", service.Name)
			}
		}
	}
	if selected != 1 {
		t.Errorf("the monitor selects %d services: each server must be scraped once", selected)
	}
	if all.set.Spec.ServiceName != all.services[0].Name {
		t.Errorf("the set names service %q", all.set.Spec.ServiceName)
	}
}

func TestProbesAndMountsExist(t *testing.T) {
	all := decode(t)
	pod := all.set.Spec.Template.Spec
	container := pod.Containers[0]
	for _, probe := range []*core.Probe{
		container.StartupProbe, container.LivenessProbe, container.ReadinessProbe,
	} {
		if probe == nil || probe.HTTPGet == nil || !hasPort(all.set, probe.HTTPGet.Port.StrVal) {
			t.Errorf("a probe asks no port of the pod: %v", probe)
		}
	}
	for _, mount := range container.VolumeMounts {
		named := func(volume core.Volume) bool { return volume.Name == mount.Name }
		if !slices.ContainsFunc(pod.Volumes, named) {
			t.Errorf("there is no volume %s", mount.Name)
		}
	}
}

// stopSecs returns the default of --tier-stop-secs, according to docs/options.md.
func stopSecs(t *testing.T) int64 {
	t.Helper()
	return number(t, "../../../docs/options.md", `--tier-stop-secs=<num>.*\| .(\d+). \|`)
}

// number returns the number that a pattern matches in a file.
func number(t *testing.T, path, pattern string) int64 {
	t.Helper()
	text, err := os.ReadFile(path)
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

// TestALongStartIsNotEnded: /ready fails until the log of a disk tier is read.
func TestALongStartIsNotEnded(t *testing.T) {
	container := decode(t).set.Spec.Template.Spec.Containers[0]
	if path := container.StartupProbe.HTTPGet.Path; path != "/health" {
		t.Errorf("the startup probe asks %s", path)
	}
	if path := container.ReadinessProbe.HTTPGet.Path; path != "/ready" {
		t.Errorf("the readiness probe asks %s", path)
	}
}

func TestTheStopHasTimeForTheDisk(t *testing.T) {
	pod := decode(t).set.Spec.Template.Spec
	command := pod.Containers[0].Lifecycle.PreStop.Exec.Command
	drainSecs, err := strconv.ParseInt(command[len(command)-1], 10, 64)
	if err != nil {
		t.Fatalf("preStop ends in no number of seconds: %v", command)
	}
	if needed := drainSecs + stopSecs(t); *pod.TerminationGracePeriodSeconds <= needed {
		t.Errorf("%d s end before %d s", *pod.TerminationGracePeriodSeconds, needed)
	}
	for path, pattern := range map[string]string{
		"../../../packaging/debian/larderd.service": `TimeoutStopSec=(\d+)\n`,
		"../../../docs/operating.md":                `TimeoutStopSec=(\d+)\n`,
	} {
		if secs := number(t, path, pattern); secs <= stopSecs(t) {
			t.Errorf("%s: %d s are not above %d s", path, secs, stopSecs(t))
		}
	}
}

// TestMemoryFits checks the README's formula: the limit is at least -m and 256 MiB, and the volume
// of -e is a little larger than -m.
func TestMemoryFits(t *testing.T) {
	pod := decode(t).set.Spec.Template.Spec
	container := pod.Containers[0]
	at := slices.Index(container.Args, "-m")
	if at < 0 || container.Args[at+1] != "1024" {
		t.Fatalf("-m is not 1024: %v", container.Args)
	}
	const mebibyte = 1 << 20
	if limit := container.Resources.Limits.Memory().Value(); limit < (1024+256)*mebibyte {
		t.Errorf("the limit of %d bytes is below -m and 256 MiB", limit)
	}
	if size := pod.Volumes[0].EmptyDir.SizeLimit.Value(); size < (1024+16)*mebibyte {
		t.Errorf("the volume of %d bytes is too small for -e", size)
	}
}

func hasPort(set apps.StatefulSet, name string) bool {
	ports := set.Spec.Template.Spec.Containers[0].Ports
	return slices.ContainsFunc(ports, func(port core.ContainerPort) bool { return port.Name == name })
}
