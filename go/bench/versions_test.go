package bench

import (
	"strings"
	"testing"
)

func TestAModuleIsNamedWithoutItsMajorVersion(t *testing.T) {
	for module, expected := range map[string]string{
		"github.com/allegro/bigcache/v3":        "bigcache",
		"github.com/VictoriaMetrics/fastcache":  "fastcache",
		"github.com/dgraph-io/ristretto/v2":     "ristretto",
		"github.com/mevdschee/tqmemory/version": "version",
	} {
		if name := nameOf(module); name != expected {
			t.Errorf("%s is named %s, expected %s", module, name, expected)
		}
	}
	if !strings.HasPrefix(Versions(), "Go 1.") {
		t.Error(Versions())
	}
	if !hasPrefix("github.com/allegro/bigcache/v3", Compared) || hasPrefix("golang.org/x/sys", Compared) {
		t.Error("the compared modules are wrong")
	}
}
