// Package schemas derives JSON schemas from the Go types of Kubernetes' API, so that kubeconform
// needs no network. A schema allows only the fields of its type.
package schemas

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"larder.test/manifests/kinds"
)

// Schema is a JSON schema.
type Schema = map[string]any

// Write writes the schema of each kind into a folder, under the name by which kubeconform looks for
// it: statefulset-apps-v1.json.
func Write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, kind := range kinds.All {
		text, err := json.MarshalIndent(Of(reflect.TypeOf(kind.New()).Elem()), "", " ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, name(kind)), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func name(kind kinds.Kind) string {
	group, version, hasGroup := strings.Cut(kind.APIVersion, "/")
	if !hasGroup {
		return strings.ToLower(kind.Kind) + "-" + kind.APIVersion + ".json"
	}
	group, _, _ = strings.Cut(group, ".")
	return strings.ToLower(kind.Kind) + "-" + group + "-" + version + ".json"
}

// Of returns the schema of a type. Structures are definitions, because some contain themselves.
func Of(of reflect.Type) Schema {
	all := definitions{}
	schema := Schema{"$schema": "http://json-schema.org/draft-07/schema#", "$ref": all.add(of)}
	schema["definitions"] = all
	return schema
}

type definitions map[string]Schema

// scalars are types whose JSON differs from their fields in Go.
var scalars = map[reflect.Type]Schema{
	reflect.TypeFor[resource.Quantity]():  {"type": []string{"string", "number"}},
	reflect.TypeFor[intstr.IntOrString](): {"type": []string{"string", "integer"}},
	reflect.TypeFor[meta.Time]():          {"type": "string"},
	reflect.TypeFor[meta.MicroTime]():     {"type": "string"},
	reflect.TypeFor[meta.Duration]():      {"type": "string"},
	reflect.TypeFor[meta.FieldsV1]():      {"type": "object"},
}

func (all definitions) schema(of reflect.Type) Schema {
	if schema, ok := scalars[of]; ok {
		return schema
	}
	switch of.Kind() {
	case reflect.Pointer:
		return all.schema(of.Elem())
	case reflect.Struct:
		return Schema{"$ref": all.add(of)}
	case reflect.Map:
		return Schema{"type": "object", "additionalProperties": all.schema(of.Elem())}
	case reflect.Slice, reflect.Array:
		if of.Elem().Kind() == reflect.Uint8 {
			return Schema{"type": "string"}
		}
		return Schema{"type": "array", "items": all.schema(of.Elem())}
	case reflect.String:
		return Schema{"type": "string"}
	case reflect.Bool:
		return Schema{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return Schema{"type": "number"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return Schema{"type": "integer"}
	default:
		return Schema{}
	}
}

// add defines a structure, and returns the reference to its definition.
func (all definitions) add(of reflect.Type) string {
	name := strings.ReplaceAll(of.PkgPath(), "/", ".") + "." + of.Name()
	if _, ok := all[name]; !ok {
		all[name] = nil
		properties, required := Schema{}, []string{}
		all.fields(of, properties, &required)
		all[name] = Schema{
			"type": "object", "properties": properties, "required": required,
			"additionalProperties": false,
		}
	}
	return "#/definitions/" + name
}

// fields collects the fields of a structure and of those that it embeds. A field that Go always
// writes is required, except structures, whose fields may all be optional.
func (all definitions) fields(of reflect.Type, properties Schema, required *[]string) {
	for index := range of.NumField() {
		field := of.Field(index)
		tag, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		inner := field.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case tag == "-" || field.PkgPath != "":
		case tag == "" && (field.Anonymous || strings.Contains(options, "inline")):
			all.fields(inner, properties, required)
		default:
			properties[tag] = all.schema(field.Type)
			isOptional := strings.Contains(options, "omit") || inner.Kind() == reflect.Struct
			if !isOptional && field.Type.Kind() != reflect.Pointer {
				*required = append(*required, tag)
			}
		}
	}
}
