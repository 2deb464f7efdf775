package schemas

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"

	"larder.test/manifests/kinds"
)

func definition(t *testing.T, of any, part string) Schema {
	t.Helper()
	for name, schema := range Of(reflect.TypeOf(of))["definitions"].(definitions) {
		if strings.HasSuffix(name, "."+part) {
			return schema
		}
	}
	t.Fatalf("no definition of %s", part)
	return nil
}

func TestAStructureAllowsItsFieldsOnly(t *testing.T) {
	spec := definition(t, apps.StatefulSet{}, "StatefulSetSpec")
	if spec["additionalProperties"] != false {
		t.Error("other fields are allowed")
	}
	properties := spec["properties"].(Schema)
	if kind := properties["replicas"].(Schema)["type"]; kind != "integer" {
		t.Errorf("replicas is of type %v", kind)
	}
	if properties["replica"] != nil {
		t.Error("there is a field replica")
	}
}

func TestFieldsOfEmbeddedStructuresBelongToTheOuterOne(t *testing.T) {
	probe := definition(t, core.Pod{}, "Probe")["properties"].(Schema)
	if probe["httpGet"] == nil || probe["periodSeconds"] == nil {
		t.Errorf("fields of a probe are missing: %v", probe)
	}
}

func TestAContainerNeedsAName(t *testing.T) {
	container := definition(t, core.Pod{}, "Container")
	if required := container["required"].([]string); !reflect.DeepEqual(required, []string{"name"}) {
		t.Errorf("required are %v", required)
	}
}

func TestEachKindHasAFile(t *testing.T) {
	names := map[string]bool{}
	for _, kind := range kinds.All {
		names[name(kind)] = true
		if _, err := json.Marshal(Of(reflect.TypeOf(kind.New()).Elem())); err != nil {
			t.Error(err)
		}
	}
	for _, expected := range []string{
		"statefulset-apps-v1.json", "service-v1.json", "podmonitor-monitoring-v1.json",
	} {
		if !names[expected] {
			t.Errorf("%s is missing: %v", expected, names)
		}
	}
}
