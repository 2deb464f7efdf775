package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	tableStart = "<!-- values: a test writes this table from values.yaml -->\n"
	tableEnd   = "<!-- end of values -->\n"
)

// documented is a value with a comment, or a mapping without one.
type documented struct {
	path     string
	value    *yaml.Node
	meaning  string
	children []documented
}

func defaults(t *testing.T) []documented {
	t.Helper()
	text, err := os.ReadFile(folder + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	return describe(t, "", document.Content[0])
}

// describe returns the values of a mapping. A value with a comment is a row of the table, even if
// it is a mapping.
func describe(t *testing.T, path string, mapping *yaml.Node) []documented {
	t.Helper()
	var found []documented
	for index := 0; index < len(mapping.Content); index += 2 {
		key, value := mapping.Content[index], mapping.Content[index+1]
		one := documented{path: path + key.Value, value: value}
		var lines []string
		for line := range strings.Lines(key.HeadComment) {
			lines = append(lines, strings.TrimSpace(strings.TrimPrefix(line, "#")))
		}
		one.meaning = strings.Join(lines, " ")
		switch {
		case one.meaning != "":
		case value.Kind == yaml.MappingNode && len(value.Content) > 0:
			one.children = describe(t, one.path+".", value)
		default:
			t.Errorf("%s has no comment in values.yaml", one.path)
		}
		found = append(found, one)
	}
	return found
}

// rows returns the rows of the table of values.
func rows(t *testing.T, of []documented) string {
	t.Helper()
	var table strings.Builder
	for _, one := range of {
		if one.children != nil {
			table.WriteString(rows(t, one.children))
			continue
		}
		var content any
		if err := one.value.Decode(&content); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		short := string(text)
		if plain, ok := content.(string); ok && plain != "" {
			short = plain
		}
		fmt.Fprintf(&table, "| `%s` | `%s` | %s |\n", one.path, short, one.meaning)
	}
	return table.String()
}

// TestTheReadmeHasEachValue: with LARDER_BLESS=1 it writes the table.
func TestTheReadmeHasEachValue(t *testing.T) {
	path := folder + "/README.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, hasStart := strings.Cut(string(text), tableStart)
	_, after, hasEnd := strings.Cut(rest, tableEnd)
	if !hasStart || !hasEnd {
		t.Fatalf("%s has no place for the table", path)
	}
	table := "\n| value | default | meaning |\n|---|---|---|\n" + rows(t, defaults(t)) + "\n"
	expected := before + tableStart + table + tableEnd + after
	if os.Getenv("LARDER_BLESS") == "1" {
		if err := os.WriteFile(path, []byte(expected), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != expected {
		t.Error("README.md differs from values.yaml: run deploy/tests/helm.sh with LARDER_BLESS=1")
	}
}

// schemaOf returns values.schema.json, or the part that a reference names.
func schemaOf(t *testing.T, root, of map[string]any) map[string]any {
	t.Helper()
	reference, ok := of["$ref"].(string)
	if !ok {
		return of
	}
	name := strings.TrimPrefix(reference, "#/definitions/")
	return root["definitions"].(map[string]any)[name].(map[string]any)
}

// TestTheSchemaHasTheValuesAndNoOthers compares values.yaml with the schema, and checks that the
// schema refuses other names.
func TestTheSchemaHasTheValuesAndNoOthers(t *testing.T) {
	text, err := os.ReadFile(folder + "/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var root map[string]any
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	compare(t, root, root, "", defaults(t))
}

func compare(t *testing.T, root, schema map[string]any, path string, of []documented) {
	t.Helper()
	schema = schemaOf(t, root, schema)
	// A chart that contains this one may have other global values.
	if isOpen := schema["additionalProperties"] != false; isOpen != (path == "global") {
		t.Errorf("the schema accepts unknown names in %q", path)
	}
	properties := schema["properties"].(map[string]any)
	names := map[string]bool{}
	for _, one := range of {
		name := one.path[strings.LastIndex(one.path, ".")+1:]
		names[name] = true
		property, ok := properties[name].(map[string]any)
		if !ok {
			t.Errorf("the schema has no %s", one.path)
		} else if one.children != nil {
			compare(t, root, property, one.path, one.children)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		// The table does not list each field of Kubernetes.
		if !names[name] && !strings.HasSuffix(path, "SecurityContext") {
			t.Errorf("values.yaml has no %s of %q", name, path)
		}
	}
}
