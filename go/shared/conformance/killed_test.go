package conformance_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"larder.example/larder/shared"
)

// The test kills writers in the middle of stores while another process reads. The reader must not
// find an incomplete value, or a value that is older than a stored value, and no process may wait
// for a killed process.
func TestKilledWritersDoNotAffectOthers(t *testing.T) {
	t.Run("without eviction", func(t *testing.T) {
		t.Parallel()
		killWriters(t, killing{memory: 8 << 20, filling: 300})
	})
	t.Run("with eviction", func(t *testing.T) {
		t.Parallel()
		killWriters(t, killing{memory: 1 << 20, filling: 20_000, evicts: true})
	})
}

// killing is a variant of the test: the cache, and the size of the values.
type killing struct {
	memory  int64
	filling int
	// True if stored items may be evicted.
	evicts bool
}

var writers = []string{"left", "right"}

func killWriters(t *testing.T, how killing) {
	path := filepath.Join(t.TempDir(), "cache")
	cache, err := shared.Open(path, shared.Options{Memory: how.memory})
	if err != nil {
		t.Fatal(err)
	}
	finish := startReader(t, path)
	round := 0
	for kill := range 10 {
		stored := writeAndBeKilled(t, path, round, how.filling)
		for at, last := range stored {
			wantRound(t, cache, writers[at], last, how.evicts)
			// A writer may have been killed after it stored a round and before it reported it.
			round = max(round, last+2)
		}
		mustWriteSoon(t, cache, fmt.Sprint("after:", kill))
	}
	finish()
	if stats := cache.Stats(); how.evicts != (stats.Evictions > 0) {
		t.Errorf("%d evictions, want some: %v", stats.Evictions, how.evicts)
	}
	_ = cache.Close()
	reopened, err := shared.Open(path, shared.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer reopened.Close()
	mustWriteSoon(t, reopened, "reopened")
	for key := range reopened.Keys("") {
		if _, err := read(reopened, key); err != nil {
			t.Errorf("after reopening: %v", err)
		}
	}
}

// startReader starts a process that reads and checks values, until finish is called.
func startReader(t *testing.T, path string) (finish func()) {
	reader := child(t, "reader", append([]string{path}, writers...)...)
	var output, stderr bytes.Buffer
	reader.Stdout, reader.Stderr = &output, &stderr
	input, err := reader.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	return func() {
		_ = input.Close()
		if err := reader.Wait(); err != nil {
			t.Errorf("reader: %v: %s", err, &stderr)
		}
		if strings.TrimSpace(output.String()) == "0" {
			t.Error("the reader found 0 values, want some")
		}
	}
}

// writeAndBeKilled starts the writers, kills them after each has stored a value, and returns the
// last round that each reported.
func writeAndBeKilled(t *testing.T, path string, round, filling int) []int {
	var processes []*exec.Cmd
	var reported []io.ReadCloser
	for _, writer := range writers {
		process := child(t, "writer", path, writer, fmt.Sprint(round), fmt.Sprint(filling))
		process.Stderr = os.Stderr
		output, err := process.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		processes, reported = append(processes, process), append(reported, output)
	}
	outcomes := make([]chan int, len(writers))
	for at, output := range reported {
		outcomes[at] = make(chan int, 2)
		go reportRounds(output, outcomes[at])
	}
	last := make([]int, len(writers))
	for at := range writers {
		select {
		case last[at] = <-outcomes[at]:
		case <-time.After(10 * time.Second):
			t.Error("a writer stored nothing within 10 s")
		}
	}
	// Kill the writers at a random point of the next stores.
	time.Sleep(rand.N(15 * time.Millisecond))
	for at, process := range processes {
		_ = process.Process.Kill()
		last[at] = <-outcomes[at]
		if err := process.Wait(); err == nil || process.ProcessState.Exited() {
			t.Errorf("a writer ended with %v, want to be killed", err)
		}
	}
	return last
}

// reportRounds sends the first round that a writer has stored and, after its end, the last one.
func reportRounds(output io.Reader, outcome chan<- int) {
	defer close(outcome)
	var reported [8]byte
	last := -1
	for {
		if _, err := io.ReadFull(output, reported[:]); err != nil {
			break
		}
		if last < 0 {
			outcome <- int(binary.BigEndian.Uint64(reported[:]))
		}
		last = int(binary.BigEndian.Uint64(reported[:]))
	}
	outcome <- last
}

// wantRound checks that the value of a writer is from this round or a later one.
func wantRound(t *testing.T, cache *shared.Cache, writer string, round int, evicts bool) {
	t.Helper()
	found, err := read(cache, fmt.Sprintf("%s:%d", writer, round%keys))
	switch {
	case err != nil:
		t.Errorf("read: %v", err)
	case found == nil && !evicts:
		t.Errorf("%s:%d: no value, want that of round %d", writer, round%keys, round)
	case found != nil && (found.writer != writer || found.round < round):
		t.Errorf("%s:%d = %+v, want a value of %s from round %d on", writer, round%keys, found, writer, round)
	}
}

// mustWriteSoon stores a value, which must not wait for a killed process.
func mustWriteSoon(t *testing.T, cache *shared.Cache, key string) {
	t.Helper()
	started := time.Now()
	if err := store(cache, key, "parent", 0, 100); err != nil {
		t.Fatal(err)
	}
	if found, err := read(cache, key); err != nil || found == nil {
		t.Fatalf("read(%q) = %+v, %v, want the stored value", key, found, err)
	}
	// A process waits about a second for a stopped process before it fails. A shorter time shows that
	// the store did not wait, even on a slow machine.
	if took := time.Since(started); took > 3*time.Second {
		t.Errorf("store took %v, want at most 3 s", took)
	}
}

// child returns a command that runs this test in another role.
func child(t *testing.T, is string, arguments ...string) *exec.Cmd {
	process := exec.CommandContext(t.Context(), itself(t), arguments...)
	process.Env = append(os.Environ(), roleVariable+"="+is)
	return process
}
