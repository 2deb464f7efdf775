// Package chart tests the Helm chart: helm renders it, the documents are checked against the types
// of Kubernetes, and larderd runs with the rendered arguments.
package chart

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"larder.test/manifests/kinds"
)

const (
	root   = "../../../.."
	folder = root + "/deploy/helm"
)

// tool returns the path of a program that a variable names. deploy/tests/helm.sh sets it.
func tool(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		t.Fatalf("%s is not a program: run deploy/tests/helm.sh, which sets HELM and KUBECONFORM", path)
	}
	return path
}

// values are arguments of helm: files and settings of values.
type values []string

func example(name string) values { return values{"--values", folder + "/examples/" + name + ".yaml"} }

func set(settings ...string) values {
	var all values
	for _, setting := range settings {
		all = append(all, "--set-json", setting)
	}
	return all
}

// helm runs helm and returns its output, or an error with everything that it printed.
func helm(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	command := exec.Command(tool(t, os.Getenv("HELM")), arguments...)
	// Without the user's configuration, and without a cluster.
	command.Env = []string{"HOME=" + t.TempDir(), "KUBECONFIG=/nonexistent"}
	var output, errors bytes.Buffer
	command.Stdout, command.Stderr = &output, &errors
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("helm %s: %w\n%s%s", strings.Join(arguments, " "), err, &output, &errors)
	}
	return output.String(), nil
}

// template renders the chart as the release larder.
func template(t *testing.T, with values) (string, error) {
	t.Helper()
	return helm(t, append([]string{"template", "larder", folder}, with...)...)
}

// rendered returns the objects of the chart, decoded strictly.
func rendered(t *testing.T, with values) []any {
	t.Helper()
	text, err := template(t, with)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := kinds.DecodeAll([]byte(text))
	if err != nil {
		t.Fatalf("%v: %v", with, err)
	}
	return objects
}

// only returns the object of a type of which the chart makes one.
func only[T any](t *testing.T, objects []any) *T {
	t.Helper()
	found := kinds.Find[T](objects)
	if len(found) != 1 {
		t.Fatalf("%d objects of type %T, not 1", len(found), *new(T))
	}
	return found[0]
}

// notes returns the text that helm prints after an installation.
func notes(t *testing.T, with values) string {
	t.Helper()
	arguments := append([]string{"install", "larder", folder, "--dry-run=client"}, with...)
	text, err := helm(t, arguments...)
	if err != nil {
		t.Fatal(err)
	}
	_, notes, found := strings.Cut(text, "\nNOTES:\n")
	if !found {
		t.Fatalf("helm prints no notes:\n%s", text)
	}
	return notes
}

func examples(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(folder + "/examples/*.yaml")
	if err != nil || len(paths) < 10 {
		t.Fatalf("examples: %v, %v", paths, err)
	}
	var names []string
	for _, path := range paths {
		names = append(names, strings.TrimSuffix(filepath.Base(path), ".yaml"))
	}
	return names
}
