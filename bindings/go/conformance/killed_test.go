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

	"larder"
)

// Processes that write are killed in the middle of it, while another one reads: nobody ever finds a broken value, or one
// older than what has been stored, and nobody has to wait for the dead.
func TestKilledWritersDoNoHarm(t *testing.T) {
	t.Run("with room for all", func(t *testing.T) {
		t.Parallel()
		killWriters(t, killing{memory: 8 << 20, filling: 300})
	})
	t.Run("while they evict", func(t *testing.T) {
		t.Parallel()
		killWriters(t, killing{memory: 1 << 20, filling: 20_000, evicts: true})
	})
}

// killing is how writers are killed.
type killing struct {
	memory  int64
	filling int
	// Items may be missing that were stored.
	evicts bool
}

var writers = []string{"left", "right"}

func killWriters(t *testing.T, how killing) {
	path := filepath.Join(t.TempDir(), "cache")
	cache, err := larder.OpenShared(path, larder.Options{Memory: how.memory})
	if err != nil {
		t.Fatal(err)
	}
	finish := startReader(t, path)
	round := 0
	for kill := range 10 {
		stored := writeAndBeKilled(t, path, round, how.filling)
		for at, last := range stored {
			isThere(t, cache, writers[at], last, how.evicts)
			// What was stored but not told is younger.
			round = max(round, last+2)
		}
		mustWriteSoon(t, cache, fmt.Sprint("after:", kill))
	}
	finish()
	if stats := cache.Stats(); how.evicts != (stats.Evictions > 0) {
		t.Errorf("%d items were evicted", stats.Evictions)
	}
	_ = cache.Close()
	reopened, err := larder.OpenShared(path, larder.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer reopened.Close()
	mustWriteSoon(t, reopened, "reopened")
	for key := range reopened.Keys("") {
		if _, err := read(reopened, key); err != nil {
			t.Error(err)
		}
	}
}

// startReader starts a process that reads and checks. It is ended by what is given back.
func startReader(t *testing.T, path string) (finish func()) {
	reader := child(t, "reader", append([]string{path}, writers...)...)
	var said, complaint bytes.Buffer
	reader.Stdout, reader.Stderr = &said, &complaint
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
			t.Errorf("the reader: %v: %s", err, &complaint)
		}
		if strings.TrimSpace(said.String()) == "0" {
			t.Error("the reader has found nothing")
		}
	}
}

// writeAndBeKilled starts a writer each, kills them when both have stored something, and gives the last round of each of
// which it has told.
func writeAndBeKilled(t *testing.T, path string, round, filling int) []int {
	var processes []*exec.Cmd
	var told []io.ReadCloser
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
		processes, told = append(processes, process), append(told, output)
	}
	outcomes := make([]chan int, len(writers))
	for at, output := range told {
		outcomes[at] = make(chan int, 2)
		go tellLast(output, outcomes[at])
	}
	last := make([]int, len(writers))
	for at := range writers {
		select {
		case last[at] = <-outcomes[at]:
		case <-time.After(10 * time.Second):
			t.Error("a writer has stored nothing for ten seconds")
		}
	}
	time.Sleep(rand.N(15 * time.Millisecond))
	for at, process := range processes {
		_ = process.Process.Kill()
		last[at] = <-outcomes[at]
		if err := process.Wait(); err == nil || process.ProcessState.Exited() {
			t.Errorf("the writer was not killed but ended: %v", err)
		}
	}
	return last
}

// tellLast tells the first round that a writer has stored, and, when it has ended, the last.
func tellLast(output io.Reader, outcome chan<- int) {
	defer close(outcome)
	var told [8]byte
	last := -1
	for {
		if _, err := io.ReadFull(output, told[:]); err != nil {
			break
		}
		if last < 0 {
			outcome <- int(binary.BigEndian.Uint64(told[:]))
		}
		last = int(binary.BigEndian.Uint64(told[:]))
	}
	outcome <- last
}

func isThere(t *testing.T, cache *larder.Cache, writer string, round int, evicts bool) {
	t.Helper()
	found, err := read(cache, fmt.Sprintf("%s:%d", writer, round%keys))
	switch {
	case err != nil:
		t.Error(err)
	case found == nil && !evicts:
		t.Errorf("what %s stored in round %d is lost", writer, round)
	case found != nil && (found.writer != writer || found.round < round):
		t.Errorf("%+v is there, %s has stored round %d", found, writer, round)
	}
}

// mustWriteSoon stores a value, for which nobody who was killed may be waited for.
func mustWriteSoon(t *testing.T, cache *larder.Cache, key string) {
	t.Helper()
	started := time.Now()
	if err := store(cache, key, "parent", 0, 100); err != nil {
		t.Fatal(err)
	}
	if found, err := read(cache, key); err != nil || found == nil {
		t.Fatalf("%+v, %v", found, err)
	}
	// Who waits for a process that is stopped gives up after about a second: nobody was waited for, on a slow machine too.
	if took := time.Since(started); took > 3*time.Second {
		t.Errorf("a write took %v", took)
	}
}

func child(t *testing.T, is string, arguments ...string) *exec.Cmd {
	process := exec.CommandContext(t.Context(), itself(t), arguments...)
	process.Env = append(os.Environ(), childIs+"="+is)
	return process
}
