package conformance_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"larder"
)

// Programs in Go, C and Rust use one cache at the same time, and find what the others have written.
func TestLanguagesShareACache(t *testing.T) {
	programs := map[string]string{"go": itself(t), "c": buildC(t)}
	t.Run("go and c", func(t *testing.T) {
		t.Parallel()
		share(t, programs, "go", "c")
	})
	t.Run("go, c and rust", func(t *testing.T) {
		t.Parallel()
		rust := os.Getenv("LARDER_PEER")
		if rust == "" {
			t.Skip("LARDER_PEER does not name the program in Rust: `cargo build --release -p larder --example peer` " +
				"makes it, in target/release/examples/peer")
		}
		share(t, map[string]string{"go": programs["go"], "c": programs["c"], "rust": rust}, "rust", "c", "go")
	})
}

func itself(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func buildC(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "peer")
	build := exec.CommandContext(t.Context(), "cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-I../lib",
		"../../c/tests/peer.c", "../lib/liblarder.a", "-lm", "-ldl", "-lpthread", "-lgcc_s", "-o", program)
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return program
}

// share runs a program for each of the peers, on a cache in which nothing has to be evicted.
func share(t *testing.T, programs map[string]string, peers ...string) {
	path := filepath.Join(t.TempDir(), "cache")
	cache, err := larder.OpenShared(path, larder.Options{Memory: 8 << 20})
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
		process.Env = append(os.Environ(), childIs+"=peer")
		go func() {
			said, err := process.CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v: %s", self, err, said)
			}
			outcomes <- err
		}()
	}
	for range peers {
		// Whoever has failed will not come to where the others wait.
		if <-outcomes != nil {
			cancel()
		}
	}
	// What they have left, once more from here.
	if err := (&peer{cache, "", peers, rounds}).checkAll(); err != nil {
		t.Error(err)
	}
}
