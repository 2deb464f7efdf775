package conformance_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"larder.example/larder/shared"
)

// Programs in Go, C and Rust use one cache at the same time and check each other's values.
func TestLanguagesShareACache(t *testing.T) {
	programs := map[string]string{"go": itself(t), "c": buildC(t)}
	t.Run("go and c", func(t *testing.T) {
		t.Parallel()
		share(t, programs, "go", "c")
	})
	t.Run("go, c and rust", func(t *testing.T) {
		t.Parallel()
		rust := os.Getenv("PEER_PROGRAM")
		if rust == "" {
			t.Skip("PEER_PROGRAM is not set: `cargo build --release -p larder --example peer` " +
				"builds the program in Rust, in target/release/examples/peer")
		}
		share(t, map[string]string{"go": programs["go"], "c": programs["c"], "rust": rust}, "rust", "c", "go")
	})
}

// itself returns the path of this test.
func itself(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// buildC builds the peer in C and returns its path.
func buildC(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "peer")
	build := exec.CommandContext(t.Context(), "cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-I../lib",
		"../../../c/tests/peer.c", "../lib/linux_"+runtime.GOARCH+"/liblarder.a", "-lm", "-ldl", "-lpthread", "-lgcc_s", "-o", program)
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return program
}

// share runs a program for each peer, on a cache that is large enough without eviction.
func share(t *testing.T, programs map[string]string, peers ...string) {
	path := filepath.Join(t.TempDir(), "cache")
	cache, err := shared.Open(path, shared.Options{Memory: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const rounds = 200 * keys
	outcomes := make(chan error)
	for _, self := range peers {
		arguments := append([]string{path, strconv.Itoa(rounds), self}, peers...)
		process := exec.CommandContext(ctx, programs[self], arguments...)
		process.Env = append(os.Environ(), roleVariable+"=peer")
		go func() {
			output, err := process.CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v: %s", self, err, output)
			}
			outcomes <- err
		}()
	}
	for range peers {
		// The others would wait for a failed peer.
		if <-outcomes != nil {
			cancel()
		}
	}
	// Check the final contents from this process too.
	if err := (&peer{cache, "", peers, rounds}).checkAll(); err != nil {
		t.Error(err)
	}
}
