package bench

import (
	"path"
	"runtime"
	"runtime/debug"
	"strings"
)

// Versions returns the version of Go, and the name and version of each module of this program whose
// path begins with one of the paths. Without paths it returns all modules. Tables begin with this
// text.
func Versions(paths ...string) string {
	words := []string{strings.Replace(runtime.Version(), "go", "Go ", 1)}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return words[0]
	}
	for _, module := range info.Deps {
		if module.Replace == nil && hasPrefix(module.Path, paths) {
			words = append(words, nameOf(module.Path)+" "+strings.TrimPrefix(module.Version, "v"))
		}
	}
	return strings.Join(words, ", ")
}

// Compared are the paths of the modules that the tables compare with.
var Compared = []string{
	"github.com/VictoriaMetrics/fastcache", "github.com/Yiling-J/theine-go", "github.com/allegro/bigcache",
	"github.com/coocood/freecache", "github.com/dgraph-io/ristretto", "github.com/maypok86/otter",
	"github.com/mevdschee/tqmemory",
}

func hasPrefix(module string, paths []string) bool {
	for _, of := range paths {
		if strings.HasPrefix(module, of) {
			return true
		}
	}
	return len(paths) == 0
}

// nameOf returns the last element of a module's path that is not a major version.
func nameOf(module string) string {
	name := path.Base(module)
	if len(name) > 1 && name[0] == 'v' && strings.Trim(name[1:], "0123456789") == "" {
		name = path.Base(path.Dir(module))
	}
	return name
}
