package chart

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// warnings has values that provoke each warning of templates/_warnings.tpl, and a part of it.
var warnings = []struct {
	with values
	part string
}{
	{set(`service.type="NodePort"`), "programs outside of the cluster can reach the servers"},
	{set(`service.type="NodePort"`), "every program that reaches the Service can read"},
	{set(`service.type="LoadBalancer"`), "cross the network unencrypted. Set tls.enabled"},
	{set(`service.type="LoadBalancer"`), "the load balancer accepts connections from all networks"},
	{set(`service.clusterIP=""`), "sends each connection to some server"},
	{set("networkPolicy.enabled=false"), "every pod of the cluster can connect"},
	{set("networkPolicy.allowExternal=true"), "pods of all namespaces, and other networks"},
	{set("networkPolicy.allowExternalEgress=true"), "the pods can connect to every address"},
	{set(`networkPolicy.clients=[{"namespaceSelector":{}}]`), "networkPolicy.clients has other"},
	{set(`networkPolicy.extraIngress=[{}]`), "the chart does not check these rules"},
	{set("hostNetwork=true"), "larderd listens on the addresses of the node"},
	{set(`metrics.service.type="NodePort"`), "the admin port is reachable from outside"},
	{set("auth.enabled=true", `auth.existingSecret="users"`), "auth without tls"},
	{set(`admin.role="read"`), "admin.role read"},
	{set(`admin.role="full"`), "admin.role full"},
	{set(`admin.existingSecret="tokens"`), "has no effect while admin.role is probe"},
	{set(`config.extraArgs=["-U","11211"]`), "-U: the chart does not check"},
	{set(`config.extraArgs=["-l","*"]`), "-l: the chart does not check"},
	{set(`near.extraArgs=["-A"]`), "-A: the chart does not check"},
	{set(`extraEnvVars=[{"name":"LARDER_PORT","value":"1"}]`), "LARDER_PORT: the chart"},
	{set("podSecurityContext.enabled=false"), "podSecurityContext.enabled is false"},
	{set(`podSecurityContext.seccompProfile.type="Unconfined"`), "system calls are not filtered"},
	{set("podSecurityContext.runAsNonRoot=false"), "larderd may run as root"},
	{set("podSecurityContext.runAsUser=0"), "larderd may run as root"},
	{set("containerSecurityContext.runAsUser=0"), "larderd may run as root"},
	{set("containerSecurityContext.enabled=false"), "containerSecurityContext.enabled is false"},
	{set("containerSecurityContext.privileged=true"), "larderd has all rights of the node"},
	{set("containerSecurityContext.allowPrivilegeEscalation=true"), "can raise their rights"},
	{set("containerSecurityContext.readOnlyRootFilesystem=false"), "can change its files"},
	{set("containerSecurityContext.capabilities.drop=[]"), "needs none of the rights of root"},
	{set(`containerSecurityContext.capabilities.add=["NET_RAW"]`), "needs none of the rights"},
	{set("serviceAccount.automountServiceAccountToken=true"), "contain a token for the API"},
	{set("resources.limits=null"), "larderd starts with -m 64"},
	{set("config.memoryLimit=1200"), "larderd can need 1304Mi with -m 1200"},
	{set("persistence.enabled=true", `persistence.mode="dump"`, `persistence.size="500Mi"`),
		"less than the 920 MiB of items"},
	{append(example("discovery-names"), set(`discovery.source="dns"`)...), "discovery.source dns"},
	{set("near.enabled=true", "near.resources.limits=null"), "near.resources.limits.memory is not set"},
	{set("near.enabled=true", "near.memoryLimit=256"), "near.resources.limits.memory is 256Mi"},
	{set("near.enabled=true", `near.socket.hostPath="/a"`), "every pod that mounts /a of its node"},
	{set("near.enabled=true", `near.kind="Sidecar"`, `near.socket.readers="any"`), "readers any"},
}

// TestEachOpenValueHasAWarning also compares the list above with the templates: it provokes every
// warning that they have.
func TestEachOpenValueHasAWarning(t *testing.T) {
	var provoked []string
	for _, warning := range warnings {
		found := false
		for line := range strings.Lines(notes(t, warning.with)) {
			if strings.HasPrefix(line, "WARNING: ") {
				provoked = append(provoked, line)
				found = found || strings.Contains(line, warning.part)
			}
		}
		if !found {
			t.Errorf("%v: no warning contains %q", warning.with, warning.part)
		}
	}
	for _, message := range messages(t, `include "larder.warning"`, "_warnings.tpl") {
		if !slices.ContainsFunc(provoked, message.MatchString) {
			t.Errorf("no values provoke the warning %s", message)
		}
	}
}

// messages returns patterns of the longest text in each line of templates that contains a call.
func messages(t *testing.T, call string, templates ...string) []*regexp.Regexp {
	t.Helper()
	quotes, value := regexp.MustCompile(`"[^"]*"`), regexp.MustCompile(`%[a-z]`)
	var found []*regexp.Regexp
	for _, name := range templates {
		text, err := os.ReadFile(filepath.Join(folder, "templates", name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, call) {
				continue
			}
			longest := ""
			for _, quoted := range quotes.FindAllString(line, -1) {
				if len(quoted) > len(longest) {
					longest = quoted
				}
			}
			pattern := regexp.QuoteMeta(strings.Trim(longest, `"`))
			pattern = strings.ReplaceAll(pattern, "%%", "%")
			found = append(found, regexp.MustCompile(value.ReplaceAllString(pattern, ".*")))
		}
	}
	if len(found) < 20 {
		t.Fatalf("only %d calls of %s are found", len(found), call)
	}
	return found
}

func TestTheDefaultsHaveNoWarning(t *testing.T) {
	for _, with := range []values{
		nil, example("default"), example("community"), example("secure"), example("mutual-tls"),
		example("tier"), example("store"), example("dump"), example("memory-file"),
		example("discovery"), example("discovery-names"), example("near-daemonset"), example("near-sidecar"),
		example("near-secure"), example("podmonitor"),
	} {
		if text := notes(t, with); strings.Contains(text, "WARNING") {
			t.Errorf("%v:\n%s", with, text)
		}
	}
}

func TestNotesListTheServersAndTheColdRollout(t *testing.T) {
	text := notes(t, nil)
	for _, part := range []string{
		"larder-0.larder.default.svc.cluster.local:11211\n",
		"larder-2.larder.default.svc.cluster.local:11211\n", "A rollout is cold",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the notes do not contain %q:\n%s", part, text)
		}
	}
	if text := notes(t, set("replicaCount=0")); !strings.HasPrefix(text, "There is no server") {
		t.Errorf("without servers:\n%s", text)
	}
	if text := notes(t, example("dump")); strings.Contains(text, "cold") {
		t.Errorf("with a volume:\n%s", text)
	}
}
