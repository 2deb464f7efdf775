package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	network "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"larder.test/manifests/kinds"
	"larder.test/manifests/schemas"
)

// conform runs kubeconform with the schemas of the Go types.
func conform(t *testing.T, manifests string) (string, error) {
	t.Helper()
	known := t.TempDir()
	if err := schemas.Write(known); err != nil {
		t.Fatal(err)
	}
	layout := filepath.Join(known, "{{ .ResourceKind }}{{ .KindSuffix }}.json")
	command := exec.Command(tool(t, os.Getenv("KUBECONFORM")),
		"-strict", "-summary", "-schema-location", layout)
	command.Stdin = strings.NewReader(manifests)
	output, err := command.CombinedOutput()
	return string(output), err
}

func TestTheChartHasNoFlawsForLint(t *testing.T) {
	for _, name := range examples(t) {
		arguments := append([]string{"lint", "--strict", folder}, example(name)...)
		if _, err := helm(t, arguments...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEveryExampleConforms(t *testing.T) {
	for _, name := range examples(t) {
		text, err := template(t, example(name))
		if err != nil {
			t.Error(err)
			continue
		}
		documents, err := kinds.Split([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range documents {
			if _, err := kinds.Decode(document); err != nil {
				t.Errorf("%s: %v in:\n%s", name, err, document)
			}
		}
		output, err := conform(t, text)
		if err != nil || !strings.Contains(output, "Invalid: 0, Errors: 0, Skipped: 0") {
			t.Errorf("%s: %v\n%s", name, err, output)
		}
	}
}

func TestAWrongFieldIsRefused(t *testing.T) {
	text, err := template(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	for right, wrong := range map[string]string{
		"  replicas: 3":           "  replica: 3",
		"replicas: 3":             "replicas: three",
		"enableServiceLinks":      "enableServiceLink",
		"        - name: larderd": "        - nam: larderd",
		"  maxUnavailable: 1":     "  maxUnavailable: [1]",
		"podSelector: {}":         "podSelectors: {}",
	} {
		broken := strings.Replace(text, right, wrong, 1)
		if broken == text {
			t.Fatalf("the chart does not render %q", right)
		}
		if output, err := conform(t, broken); err == nil {
			t.Errorf("kubeconform accepts %q:\n%s", wrong, output)
		}
		if _, err := kinds.DecodeAll([]byte(broken)); err == nil {
			t.Errorf("the types accept %q", wrong)
		}
	}
}

func selects(t *testing.T, selector *meta.LabelSelector, pod map[string]string) bool {
	t.Helper()
	found, err := meta.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return found.Matches(labels.Set(pod))
}

func TestSelectorsFindTheirPodsOnly(t *testing.T) {
	with := append(example("near-daemonset"), set("metrics.podMonitor.enabled=true")...)
	objects := rendered(t, with)
	servers := only[apps.StatefulSet](t, objects)
	near := only[apps.DaemonSet](t, objects)
	server, copies := servers.Spec.Template.Labels, near.Spec.Template.Labels
	for name, selector := range map[string]*meta.LabelSelector{
		"the set":    servers.Spec.Selector,
		"the budget": only[policy.PodDisruptionBudget](t, objects).Spec.Selector,
		"the spread": servers.Spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector,
	} {
		if !selects(t, selector, server) || selects(t, selector, copies) {
			t.Errorf("%s does not select the servers only: %v", name, selector)
		}
	}
	monitor := &only[monitoring.PodMonitor](t, objects).Spec.Selector
	if !selects(t, monitor, server) || !selects(t, monitor, copies) {
		t.Errorf("the monitor does not select servers and near caches: %v", monitor)
	}
	if !selects(t, near.Spec.Selector, copies) || selects(t, near.Spec.Selector, server) {
		t.Error("the DaemonSet does not select the near caches only")
	}
	for _, service := range kinds.Find[core.Service](objects) {
		chosen := labels.SelectorFromSet(service.Spec.Selector)
		expected, other := server, copies
		if strings.HasSuffix(service.Name, "-near") {
			expected, other = copies, server
		}
		if !chosen.Matches(labels.Set(expected)) || chosen.Matches(labels.Set(other)) {
			t.Errorf("service %s selects other pods", service.Name)
		}
	}
	if servers.Spec.ServiceName != servers.Name {
		t.Errorf("the pods have names in the service %s", servers.Spec.ServiceName)
	}
}

// TestTheNetworkIsClosed checks the policies of servers and near caches.
func TestTheNetworkIsClosed(t *testing.T) {
	policies := kinds.Find[network.NetworkPolicy](rendered(t, example("near-daemonset")))
	if len(policies) != 2 {
		t.Fatalf("%d policies, not 2", len(policies))
	}
	for _, policy := range policies {
		clients, metrics := policy.Spec.Ingress[0], policy.Spec.Ingress[1]
		if len(policy.Spec.Ingress) != 2 || len(policy.Spec.PolicyTypes) != 2 {
			t.Errorf("%s: %v", policy.Name, policy.Spec)
		}
		if from := clients.From; len(from) != 1 || from[0].PodSelector == nil ||
			from[0].NamespaceSelector != nil || from[0].IPBlock != nil {
			t.Errorf("%s: clients are %v", policy.Name, from)
		}
		if clients.Ports[0].Port.IntVal != 11211 || metrics.Ports[0].Port.IntVal != 9150 {
			t.Errorf("%s: ports %v", policy.Name, policy.Spec.Ingress)
		}
		if metrics.From[0].PodSelector.MatchLabels["app.kubernetes.io/name"] != "prometheus" {
			t.Errorf("%s: the metrics are for %v", policy.Name, metrics.From)
		}
	}
	if servers := policies[0]; len(servers.Spec.Egress) != 0 {
		t.Errorf("servers may connect to %v", servers.Spec.Egress)
	}
}

// TestNearCachesReachTheServers, also if only some pods are clients.
func TestNearCachesReachTheServers(t *testing.T) {
	with := append(example("near-daemonset"),
		set(`networkPolicy.clients=[{"podSelector":{"matchLabels":{"app":"shop"}}}]`)...)
	objects := rendered(t, with)
	copies := only[apps.DaemonSet](t, objects).Spec.Template.Labels
	servers := only[apps.StatefulSet](t, objects).Spec.Template.Labels
	isAdmitted, isAllowed := false, false
	for _, policy := range kinds.Find[network.NetworkPolicy](objects) {
		if selects(t, &policy.Spec.PodSelector, servers) {
			for _, peer := range policy.Spec.Ingress[0].From {
				isAdmitted = isAdmitted || selects(t, peer.PodSelector, copies)
			}
			continue
		}
		for _, rule := range policy.Spec.Egress {
			for _, peer := range rule.To {
				isAllowed = isAllowed || selects(t, peer.PodSelector, servers)
			}
		}
	}
	if !isAdmitted || !isAllowed {
		t.Errorf("admitted by the servers: %v, allowed to connect: %v", isAdmitted, isAllowed)
	}
}

// TestTwoNearCachesOfANodeDoNotShareASocket: an update starts the new one first if it can.
func TestTwoNearCachesOfANodeDoNotShareASocket(t *testing.T) {
	for name, expected := range map[string]bool{"near-daemonset": true, "near-socket": false} {
		strategy := only[apps.DaemonSet](t, rendered(t, example(name))).Spec.UpdateStrategy
		if (strategy.RollingUpdate != nil) != expected {
			t.Errorf("%s: the strategy is %v", name, strategy)
		}
	}
}

// TestTheContainerHasNoRights checks servers and near caches.
func TestTheContainerHasNoRights(t *testing.T) {
	objects := rendered(t, example("near-daemonset"))
	for _, pod := range []core.PodSpec{
		only[apps.StatefulSet](t, objects).Spec.Template.Spec,
		only[apps.DaemonSet](t, objects).Spec.Template.Spec,
	} {
		container := pod.Containers[0].SecurityContext
		if !*pod.SecurityContext.RunAsNonRoot || *pod.SecurityContext.RunAsUser != 11211 ||
			pod.SecurityContext.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault ||
			*container.AllowPrivilegeEscalation || *container.Privileged ||
			!*container.ReadOnlyRootFilesystem || container.Capabilities.Drop[0] != "ALL" ||
			*pod.AutomountServiceAccountToken || *pod.EnableServiceLinks || pod.HostNetwork {
			t.Errorf("a pod has more rights than it needs: %v, %v", pod, container)
		}
		for _, volume := range pod.Volumes {
			if volume.HostPath != nil {
				t.Errorf("a pod mounts %s of its node", volume.HostPath.Path)
			}
		}
	}
	for _, service := range kinds.Find[core.Service](objects) {
		if service.Spec.Type != "" && service.Spec.Type != core.ServiceTypeClusterIP {
			t.Errorf("service %s is of type %s", service.Name, service.Spec.Type)
		}
	}
}
