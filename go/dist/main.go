// Command dist writes the Go modules as a file-system proxy, from which `go get` fetches them:
//
//	go run . -version v0.1.0 -out DIR
//	GOPROXY=file://DIR,$(go env GOPROXY) GONOSUMDB=larder.example/larder go get ...
//
// It packs the files that git tracks, and the files that -with adds to a module. The replace
// directives that connect the modules in this folder do not affect users of the modules; the packed
// modules require each other in the packed version. https://go.dev/ref/mod#goproxy-protocol
// describes the layout.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("dist: ")
	root := flag.String("root", "..", "the folder of the core module")
	version := flag.String("version", "", "the version of all modules, for example v0.1.0")
	out := flag.String("out", "", "the folder of the proxy, created if it does not exist")
	date := flag.String("date", "", "the time of the version (RFC 3339), by default now")
	added := make(additions)
	flag.Var(added, "with", "MODULE=FOLDER: add the files of a folder to a nested module; can be repeated")
	flag.Parse()
	if err := write(*root, *version, *out, *date, added); err != nil {
		log.Fatal(err)
	}
}

// published are the modules that users fetch, by their folders.
var published = []string{".", "shared", "prometheus", "observe"}

func write(root, version, out, date string, added additions) error {
	if semver.Canonical(version) != version || version == "" {
		return fmt.Errorf("-version %q: expected a version like v0.1.0", version)
	}
	if out == "" {
		return errors.New("-out is missing: the folder of the proxy")
	}
	at := time.Now().UTC()
	if date != "" {
		var err error
		if at, err = time.Parse(time.RFC3339, date); err != nil {
			return fmt.Errorf("-date: %w", err)
		}
	}
	core, err := pathOf(root)
	if err != nil {
		return err
	}
	for _, folder := range published {
		module := packed{root: filepath.Join(root, folder), core: core, version: version}
		if err := module.write(out, at, added[folder]); err != nil {
			return fmt.Errorf("%s: %w", module.root, err)
		}
	}
	return nil
}

// additions maps a module to folders of files that are added to it.
type additions map[string][]string

// String returns the default value of the flag.
func (a additions) String() string { return "" }

// Set parses one use of the flag.
func (a additions) Set(text string) error {
	module, folder, isPair := strings.Cut(text, "=")
	if !isPair {
		return errors.New("expected MODULE=FOLDER")
	}
	a[module] = append(a[module], folder)
	return nil
}

// info is the proxy's description of a version.
type info struct {
	Version string
	Time    time.Time
}

// writeInfo writes the file of a version, and the list of versions.
func writeInfo(folder, version string, at time.Time) error {
	text, err := json.Marshal(info{version, at})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, version+".info"), text, 0o644); err != nil {
		return err
	}
	list := filepath.Join(folder, "list")
	before, err := os.ReadFile(list)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	versions := strings.Fields(string(before))
	for _, one := range versions {
		if one == version {
			return nil
		}
	}
	versions = append(versions, version)
	return os.WriteFile(list, []byte(strings.Join(versions, "\n")+"\n"), 0o644)
}
