#!/usr/bin/env bash
# Fetches the modules as users do: `go get` in empty modules, from the files that dist.sh writes,
# and runs a program of each, also with vendoring, and the tests of the core module. Needs
# shared/lib, which `make` fills.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
path=$(sed -n 's/^module //p' "$here/go.mod")
passed=0

mkdir -p "$folder/archives"
(cd "$here/shared/lib" && cp -r --parents larder.h */liblarder.a "$folder/archives")
LARDER_ARCHIVES=$folder/archives "$here/dist.sh" "$folder/proxy"

# Use a separate module cache, so that all modules must come from the proxy.
export GOMODCACHE=$folder/cache GOFLAGS=-modcacherw GOWORK=off
export GOPROXY=file://$folder/proxy,$(go env GOPROXY) GONOSUMDB=$path,$path/* GONOPROXY=none

# get MODULE NAME: fetches a module into an empty one, with the program of the standard input.
get() {
    mkdir "$folder/$2"
    cd "$folder/$2"
    go mod init "example.org/$2" 2>/dev/null
    go get "$1@latest" 2>&1 | sed 's/^/    /'
    cat >main.go
}

says() {
    local said
    said=$("${@:2}")
    [ "$said" = "$1" ] || { echo "get.sh: ${*:2}: expected $1, found: $said" >&2; exit 1; }
    passed=$((passed + 1))
}

get "$path" core <<END
package main

import (
	"fmt"
	"time"

	"$path"
)

func main() {
	cache, err := larder.Open(larder.Options{Memory: 16 << 20})
	if err != nil {
		panic(err)
	}
	defer cache.Close()
	if err := cache.Set("greeting", []byte("hello"), time.Minute); err != nil {
		panic(err)
	}
	value, _ := cache.Get("greeting")
	fmt.Println(string(value))
}
END
CGO_ENABLED=0 says hello go run .
# The module's own tests pass without the repository. Tests that need it skip themselves.
env -u CI -u LARDERD -u REGION_CASES CGO_ENABLED=0 go test -short "$path" "$path"/{bigcache,reader,typed,wire}
[ "$(go list -m all | wc -l)" -eq 2 ] || { echo "get.sh: the core module has dependencies" >&2; exit 1; }

get "$path/shared" shared <<END
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"$path/shared"
)

func main() {
	folder, err := os.MkdirTemp("", "larder")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	cache, err := shared.Open(filepath.Join(folder, "cache"), shared.Options{Memory: 16 << 20})
	if err != nil {
		panic(err)
	}
	defer cache.Close()
	if err := cache.Set("greeting", []byte("hello"), time.Minute); err != nil {
		panic(err)
	}
	value, _ := cache.Get("greeting")
	fmt.Println(string(value))
}
END
says hello go run .
go mod vendor
says hello go run -mod=vendor .

get "$path/observe" observe <<END
package main

import (
	"context"
	"fmt"
	"log/slog"

	"go.opentelemetry.io/otel"

	"$path"
	"$path/observe"
)

func main() {
	cache, err := larder.Open(larder.Options{Memory: 16 << 20})
	if err != nil {
		panic(err)
	}
	defer cache.Close()
	store := observe.Store(cache.Store(), observe.Options{Tracer: otel.Tracer("x"), Logger: slog.Default()})
	if err := store.Set(context.Background(), "greeting", []byte("hello"), 0); err != nil {
		panic(err)
	}
	value, err := store.Get(context.Background(), "greeting")
	fmt.Println(string(value), err)
}
END
go mod tidy 2>/dev/null
CGO_ENABLED=0 says "hello <nil>" go run .

echo "go_get: $passed passed, 0 failed"
