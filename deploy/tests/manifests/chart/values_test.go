package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"larder.test/manifests/kinds"
)

// refused are values that helm must refuse, and a part of its message.
var refused = []struct {
	with values
	part string
}{
	{set("replicaCoun=3"), "'replicaCoun' not allowed"},
	{set(`image.tags="x"`), "'tags' not allowed"},
	{set("metrics.podMonitor.enable=true"), "'enable' not allowed"},
	{set("near.socket.path=1"), "'path' not allowed"},
	{set("containerSecurityContext.runAsNonroot=true"), "'runAsNonroot' not allowed"},
	{set(`resources.limit={"memory":"1Gi"}`), "'limit' not allowed"},
	{set(`resources.limits.memory="1 GB"`), "/resources/limits/memory"},
	{set(`deploymentType="Deployment"`), "/deploymentType"},
	{set(`config.memoryLimit="80 percent"`), "/config/memoryLimit"},
	{set("service.port=70000"), "/service/port"},
	{set(`persistence.mode="disk"`), "/persistence/mode"},
	{set("near.followers=5000"), "/near/followers"},

	{set("auth.enabled=true"), "auth.existingSecret is empty"},
	{set("tls.enabled=true"), "tls.existingSecret is empty"},
	{set("tls.enabled=true", `tls.existingSecret="a"`, `tls.clientCertificates="required"`),
		"needs tls.enabled, and tls.certCAFilename"},
	{set("pdb.minAvailable=1"), "pdb.minAvailable and pdb.maxUnavailable are both set"},
	{set("metrics.podMonitor.enabled=true", "metrics.serviceMonitor.enabled=true"), "scraped twice"},
	{set("metrics.enabled=false", "metrics.podMonitor.enabled=true"), "needs metrics.enabled"},
	{set("admin.port=11211"), "admin.port is the port of clients"},
	{set("memoryFile.enabled=true", "persistence.enabled=true"), "choose one of them"},
	{set("memoryFile.enabled=true", "resources.limits=null"), "memoryFile needs a size"},
	{set(`resources.limits.memory="128Mi"`), "128Mi: 80% of it leave -2 MiB for items"},
	{set("near.enabled=true", `near.resources.limits.memory="100Mi"`), "near.resources.limits.memory"},
	{set("persistence.enabled=true", `persistence.tier.size="10Gi"`), "10Gi does not fit on a volume"},
	{set("persistence.enabled=true", `persistence.size="32Mi"`), "must be 32Mi or more"},
	{set("persistence.enabled=true", `persistence.tier.durability="sync"`), "is for persistence.tier.mode"},
	{set("terminationGracePeriodSeconds=10"), "take up to 10, so set more"},
	{append(set("memoryFile.enabled=true", `resources.limits.memory="1 GB"`), "--skip-schema-validation"),
		"is not a quantity"},
	{set("drain.waitSeconds=5"), "must be greater than drain.graceSeconds"},
	{append(example("tier"), set("terminationGracePeriodSeconds=70")...), "take up to 70"},
	{set("near.enabled=true", "replicaCount=0"), "near.enabled needs 1 to 64 servers"},
	{set("near.enabled=true", "replicaCount=65"), "near.enabled needs 1 to 64 servers"},
	{set("discovery.enabled=true", `discovery.source="names"`, "replicaCount=0"), "at least one server"},
	{append(example("secure"), set("near.enabled=true")...), "near.originLogin.existingSecret is empty"},
	{set("near.enabled=true", "tls.enabled=true", `tls.existingSecret="a"`), "tls.certCAFilename is empty"},
	{append(example("mutual-tls"), set("near.enabled=true")...), "have no certificate"},
}

// TestWrongValuesAreRefusedWithTheReason also provokes every error of the templates.
func TestWrongValuesAreRefusedWithTheReason(t *testing.T) {
	var provoked []string
	for _, wrong := range refused {
		_, err := template(t, wrong.with)
		if err == nil {
			t.Errorf("%v: accepted", wrong.with)
			continue
		}
		provoked = append(provoked, err.Error())
		if !strings.Contains(err.Error(), wrong.part) {
			t.Errorf("%v: the error does not contain %q: %v", wrong.with, wrong.part, err)
		}
	}
	for _, message := range messages(t, "fail", "_checks.tpl", "_memory.tpl") {
		if !slices.ContainsFunc(provoked, message.MatchString) {
			t.Errorf("no values provoke the error %s", message)
		}
	}
}

func server(t *testing.T, with values) core.Container {
	t.Helper()
	return only[apps.StatefulSet](t, rendered(t, with)).Spec.Template.Spec.Containers[0]
}

// argument returns the text after an option in the arguments of larderd.
func argument(t *testing.T, container core.Container, option string) string {
	t.Helper()
	at := slices.Index(container.Args, option)
	if at < 0 || at+1 == len(container.Args) {
		t.Fatalf("%s is not in %v", option, container.Args)
	}
	return container.Args[at+1]
}

func TestMemoryFollowsTheLimit(t *testing.T) {
	for with, expected := range map[string]string{
		``:                                  "80%",
		`resources.limits=null`:             "64",
		`resources={}`:                      "80%",
		`config.memoryLimit=500`:            "500",
		`config.memoryLimit="500"`:          "500",
		`config.memoryLimit="50%"`:          "50%",
		`resources.limits.memory="1.5Gi"`:   "80%",
		`resources.limits.memory=536870912`: "80%",
	} {
		var chosen values
		if with != "" {
			chosen = set(with)
		}
		if actual := argument(t, server(t, chosen), "-m"); actual != expected {
			t.Errorf("%s: -m %s, not %s", with, actual, expected)
		}
	}
}

// TestQuantitiesAreThoseOfKubernetes compares the size of a file in memory, which the chart
// computes, with the arithmetic of Kubernetes' library.
func TestQuantitiesAreThoseOfKubernetes(t *testing.T) {
	for _, text := range []string{
		`"1280Mi"`, `"1.5Gi"`, `"512M"`, `"2G"`, `536870912`, `"536870912"`, `"1e9"`,
		`"800000k"`, `"900000000000m"`, `"0.001Ti"`,
	} {
		quantity, err := resource.ParseQuantity(strings.Trim(text, `"`))
		if err != nil {
			t.Fatal(err)
		}
		container := server(t, set("memoryFile.enabled=true", "resources.limits.memory="+text))
		expected := fmt.Sprint(quantity.Value()*8/10>>20 - 104)
		if actual := argument(t, container, "-m"); actual != expected {
			t.Errorf("%s: -m %s, not %s", text, actual, expected)
		}
		if limit := container.Resources.Limits.Memory(); limit.Cmp(quantity) != 0 {
			t.Errorf("%s is rendered as %s", text, limit)
		}
	}
}

// TestAFileInMemoryFits: the kubelet evicts a pod whose volume exceeds its size.
func TestAFileInMemoryFits(t *testing.T) {
	pod := only[apps.StatefulSet](t, rendered(t, example("memory-file"))).Spec.Template.Spec
	if size := argument(t, pod.Containers[0], "-m"); size != "920" {
		t.Errorf("-m %s, not 920", size)
	}
	at := slices.IndexFunc(pod.Volumes, func(of core.Volume) bool { return of.Name == "cache" })
	if size := pod.Volumes[at].EmptyDir.SizeLimit.String(); size != "984Mi" {
		t.Errorf("the volume has %s", size)
	}
}

func TestTheStopHasTime(t *testing.T) {
	for name, expected := range map[string]int64{"default": 30, "tier": 90, "store": 90, "dump": 60} {
		pod := only[apps.StatefulSet](t, rendered(t, example(name))).Spec.Template.Spec
		if *pod.TerminationGracePeriodSeconds != expected {
			t.Errorf("%s: %d seconds, not %d", name, *pod.TerminationGracePeriodSeconds, expected)
		}
	}
	longer := append(example("dump"), set("drain.waitSeconds=60", "persistence.dump.seconds=100")...)
	pod := only[apps.StatefulSet](t, rendered(t, longer)).Spec.Template.Spec
	if *pod.TerminationGracePeriodSeconds != 180 {
		t.Errorf("%d seconds for 160", *pod.TerminationGracePeriodSeconds)
	}
	if wait := pod.Containers[0].Lifecycle.PreStop.Exec.Command; wait[len(wait)-1] != "60" {
		t.Errorf("preStop is %v", wait)
	}
}

func TestALogOnDiskLeavesRoomForTheFileSystem(t *testing.T) {
	container := server(t, set("persistence.enabled=true"))
	if size := argument(t, container, "--tier-size"); size != "6553m" {
		t.Errorf("80 %% of 8Gi are %s", size)
	}
	if size := argument(t, server(t, example("tier")), "--tier-size"); size != "20480m" {
		t.Errorf("20Gi are %s", size)
	}
}

// TestRestoredItemsOfACacheDieSoon: a change that failed while the server was away leaves an old
// value.
func TestRestoredItemsOfACacheDieSoon(t *testing.T) {
	for name, expected := range map[string]bool{
		"tier": true, "dump": true, "store": false, "default": false,
	} {
		args := server(t, example(name)).Args
		if slices.Contains(args, "--restore-ttl=300") != expected {
			t.Errorf("%s: %v", name, args)
		}
		unlimited := append(example(name), set("persistence.restoreTtlSeconds=0")...)
		if args := strings.Join(server(t, unlimited).Args, " "); strings.Contains(args, "restore-ttl") {
			t.Errorf("%s without a limit: %s", name, args)
		}
	}
}

func TestReplicasMayBeZeroOrOne(t *testing.T) {
	for _, count := range []int32{0, 1} {
		objects := rendered(t, set(fmt.Sprintf("replicaCount=%d", count)))
		if replicas := *only[apps.StatefulSet](t, objects).Spec.Replicas; replicas != count {
			t.Errorf("%d replicas, not %d", replicas, count)
		}
	}
}

func TestNamesFitIntoLabels(t *testing.T) {
	long := strings.Repeat("a", 70)
	for release, with := range map[string]values{
		"larder":                nil,
		"shop":                  nil,
		strings.Repeat("b", 53): nil,
		"shop2":                 set(`fullnameOverride="` + long + `"`),
		"shop3":                 set(`nameOverride="` + long + `"`),
		"shop4":                 set(`fullnameOverride="cache"`),
	} {
		text, err := helm(t, append([]string{"template", release, folder}, with...)...)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := kinds.DecodeAll([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		servers := only[apps.StatefulSet](t, objects)
		if len(servers.Name) > 52 || strings.HasSuffix(servers.Name, "-") {
			t.Errorf("%s: the name is %q", release, servers.Name)
		}
		for name, value := range servers.Spec.Template.Labels {
			if len(value) > 63 {
				t.Errorf("%s: label %s is %q", release, name, value)
			}
		}
		for _, service := range kinds.Find[core.Service](objects) {
			if len(service.Name) > 63 {
				t.Errorf("%s: a service has the name %q", release, service.Name)
			}
		}
	}
}

func TestTwoLongNamesDiffer(t *testing.T) {
	names := map[string]bool{}
	for _, end := range []string{"x", "y"} {
		long := strings.Repeat("a", 60) + end
		objects := rendered(t, set(`fullnameOverride="`+long+`"`))
		names[only[apps.StatefulSet](t, objects).Name] = true
	}
	if len(names) != 2 {
		t.Errorf("both names are %v", names)
	}
}

func TestImagesHaveARegistryATagOrADigest(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	for with, expected := range map[string]string{
		`image.tag="1"`: "larder:1",
		`image={"registry":"r.example","repository":"a/b"}`: "r.example/a/b:0.1.0",
		`image.digest="` + digest + `"`:                     "larder@" + digest,
		`global.imageRegistry="g.example"`:                  "g.example/larder:0.1.0",
	} {
		if image := server(t, set(with)).Image; image != expected {
			t.Errorf("%s: %s, not %s", with, image, expected)
		}
	}
	secrets := set(`imagePullSecrets=["a",{"name":"b"}]`, `image.pullSecrets=["c"]`)
	pod := only[apps.StatefulSet](t, rendered(t, secrets)).Spec.Template.Spec
	if len(pod.ImagePullSecrets) != 3 || pod.ImagePullSecrets[2].Name != "b" {
		t.Errorf("the secrets are %v", pod.ImagePullSecrets)
	}
}

// TestAPortOfClientsIsThatOfThePods: a headless Service does not translate ports.
func TestAPortOfClientsIsThatOfThePods(t *testing.T) {
	for _, with := range []values{set("service.port=11311"), set("service.ports.memcached=11311")} {
		objects := rendered(t, with)
		container := only[apps.StatefulSet](t, objects).Spec.Template.Spec.Containers[0]
		if argument(t, container, "-p") != "11311" || container.Ports[0].ContainerPort != 11311 {
			t.Errorf("%v: %v", with, container)
		}
	}
}

func TestASecondServiceHasOneAddress(t *testing.T) {
	for with, expected := range map[string]core.ServiceType{
		`service.type="LoadBalancer"`: core.ServiceTypeLoadBalancer,
		`service.type="NodePort"`:     core.ServiceTypeNodePort,
		`service.clusterIP=""`:        core.ServiceTypeClusterIP,
	} {
		objects := rendered(t, append(set(with), set("metrics.enabled=false")...))
		services := kinds.Find[core.Service](objects)
		if len(services) != 2 || services[0].Spec.ClusterIP != core.ClusterIPNone {
			t.Fatalf("%s: %v", with, services)
		}
		if services[1].Name != "larder-front" || services[1].Spec.Type != expected {
			t.Errorf("%s: %v", with, services[1])
		}
	}
}

func TestABudgetHasOneNumber(t *testing.T) {
	with := set(`pdb={"minAvailable":"50%","maxUnavailable":""}`)
	budget := only[policy.PodDisruptionBudget](t, rendered(t, with)).Spec
	if budget.MinAvailable.StrVal != "50%" || budget.MaxUnavailable != nil {
		t.Errorf("the budget is %v", budget)
	}
	objects := rendered(t, set("pdb.create=false"))
	if found := kinds.Find[policy.PodDisruptionBudget](objects); len(found) != 0 {
		t.Errorf("there is a budget: %v", found)
	}
}

func TestRootNeedsAUserOfLarderd(t *testing.T) {
	root := set("containerSecurityContext.runAsUser=0", "podSecurityContext.runAsNonRoot=false")
	if user := argument(t, server(t, root), "-u"); user != "root" {
		t.Errorf("-u %s", user)
	}
}

// TestLabelsOfTheValuesDoNotHideThePods: selectors need the labels of the chart.
func TestLabelsOfTheValuesDoNotHideThePods(t *testing.T) {
	own := `{"app.kubernetes.io/name":"mine","team":"shop"}`
	objects := rendered(t, set("commonLabels="+own, "podLabels="+own, "service.annotations="+own))
	servers := only[apps.StatefulSet](t, objects)
	for _, found := range []map[string]string{servers.Labels, servers.Spec.Template.Labels} {
		if found["app.kubernetes.io/name"] != "larder" || found["team"] != "shop" {
			t.Errorf("the labels are %v", found)
		}
	}
	if note := kinds.Find[core.Service](objects)[0].Annotations; note["team"] != "shop" {
		t.Errorf("the annotations are %v", note)
	}
}

// TestAChartMayContainThisOne, with global values for its other parts.
func TestAChartMayContainThisOne(t *testing.T) {
	parent := t.TempDir()
	for path, text := range map[string]string{
		"Chart.yaml":  "{apiVersion: v2, name: shop, version: 1.0.0}\n",
		"values.yaml": "{global: {shop: open}, larder: {replicaCount: 2}}\n",
	} {
		if err := os.WriteFile(filepath.Join(parent, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(parent, "charts/larder"), os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	text, err := helm(t, "template", "shop", parent)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := kinds.DecodeAll([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	servers := only[apps.StatefulSet](t, objects)
	if servers.Name != "shop-larder" || *servers.Spec.Replicas != 2 {
		t.Errorf("%d servers of %s", *servers.Spec.Replicas, servers.Name)
	}
}

func TestMoreObjectsMayContainTemplates(t *testing.T) {
	with := set(`extraObjects=[{"apiVersion":"v1","kind":"ServiceAccount",` +
		`"metadata":{"name":"of-{{ .Release.Name }}"}}]`)
	isMade := func(account *core.ServiceAccount) bool { return account.Name == "of-larder" }
	accounts := kinds.Find[core.ServiceAccount](rendered(t, with))
	if !slices.ContainsFunc(accounts, isMade) {
		t.Errorf("the objects are %v", accounts)
	}
}
