// Package kinds decodes manifests strictly: a field that is unknown to Kubernetes or the Prometheus
// Operator is an error.
package kinds

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	network "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	decoder "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Kind is the type of the documents of one apiVersion and kind.
type Kind struct {
	APIVersion, Kind string
	New              func() any
}

// All are the kinds that the manifests may contain.
var All = []Kind{
	{"apps/v1", "StatefulSet", func() any { return new(apps.StatefulSet) }},
	{"apps/v1", "DaemonSet", func() any { return new(apps.DaemonSet) }},
	{"v1", "Pod", func() any { return new(core.Pod) }},
	{"v1", "Service", func() any { return new(core.Service) }},
	{"v1", "ConfigMap", func() any { return new(core.ConfigMap) }},
	{"v1", "ServiceAccount", func() any { return new(core.ServiceAccount) }},
	{"policy/v1", "PodDisruptionBudget", func() any { return new(policy.PodDisruptionBudget) }},
	{"networking.k8s.io/v1", "NetworkPolicy", func() any { return new(network.NetworkPolicy) }},
	{"monitoring.coreos.com/v1", "ServiceMonitor", func() any { return new(monitoring.ServiceMonitor) }},
	{"monitoring.coreos.com/v1", "PodMonitor", func() any { return new(monitoring.PodMonitor) }},
}

// Split returns the documents of a file that are not empty.
func Split(text []byte) ([][]byte, error) {
	var documents [][]byte
	reader := decoder.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, err
		}
		var content any
		if err := yaml.Unmarshal(document, &content); err != nil {
			return nil, fmt.Errorf("%w in:\n%s", err, document)
		}
		if content != nil {
			documents = append(documents, document)
		}
	}
}

// Decode returns a pointer to the object of a document. It refuses unknown kinds and fields, and
// fields that a document has twice.
func Decode(document []byte) (any, error) {
	var named meta.TypeMeta
	if err := yaml.Unmarshal(document, &named); err != nil {
		return nil, err
	}
	for _, kind := range All {
		if kind.APIVersion == named.APIVersion && kind.Kind == named.Kind {
			object := kind.New()
			return object, yaml.UnmarshalStrict(document, object)
		}
	}
	return nil, fmt.Errorf("unexpected kind: %s %s", named.APIVersion, named.Kind)
}

// DecodeAll decodes the documents of a file.
func DecodeAll(text []byte) ([]any, error) {
	documents, err := Split(text)
	if err != nil {
		return nil, err
	}
	var objects []any
	for _, document := range documents {
		object, err := Decode(document)
		if err != nil {
			return nil, fmt.Errorf("%w in:\n%s", err, document)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// Find returns the objects of one type.
func Find[T any](objects []any) []*T {
	var found []*T
	for _, object := range objects {
		if object, ok := object.(*T); ok {
			found = append(found, object)
		}
	}
	return found
}
