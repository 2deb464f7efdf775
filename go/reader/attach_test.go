package reader_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"larder.example/larder/internal/check"
	"larder.example/larder/internal/testserver"
	"larder.example/larder/reader"
)

func TestGetReadsMemoryOfServer(t *testing.T) {
	s := startLarderd(t, "-m", "64")
	writer, local := dial(t, s), attach(t, s)
	large := bytes.Repeat([]byte("large "), 50_000)
	writer.set(t, "k", 7, 100, []byte("value"))
	writer.set(t, "empty", 0, 0, nil)
	writer.set(t, "large", 0, 0, large)
	writer.set(t, "number", 0, 0, []byte("41"))
	writer.request(t, "incr number 1")
	value, info, ok := local.Get(nil, []byte("k"))
	check.Equal(t, "Get(k) found", ok, true)
	check.Equal(t, "Get(k)", string(value), "value")
	check.Equal(t, "Flags", info.Flags, 7)
	check.Equal(t, "CAS is 0", info.CAS == 0, false)
	// The test takes less than ten seconds.
	if info.TTL > 100*time.Second || info.TTL < 90*time.Second {
		t.Errorf("TTL = %v, want 90 s to 100 s", info.TTL)
	}
	for key, want := range map[string]string{"empty": "", "large": string(large), "number": "42"} {
		value, info, ok := local.Get([]byte("> "), []byte(key))
		if !ok || string(value) != "> "+want {
			t.Errorf("Get(%q) = %.40q (%d bytes), %v, want %.40q", key, value, len(value), ok, "> "+want)
		}
		check.Equal(t, "TTL of "+key, info.TTL, 0)
	}
	found := map[int]string{}
	keys := [][]byte{[]byte("number"), []byte("none"), []byte("k")}
	local.GetMany(nil, keys, func(i int, value []byte, _ reader.Info) { found[i] = string(value) })
	check.Equal(t, "GetMany", fmt.Sprint(found), fmt.Sprint(map[int]string{0: "42", 2: "value"}))
	for _, key := range []string{"none", "", strings.Repeat("k", 250), strings.Repeat("k", 300)} {
		wantNoValue(t, local, key)
	}
}

func TestGetDoesNotFindInvalidItems(t *testing.T) {
	s := startLarderd(t, "-m", "64")
	writer, local := dial(t, s), attach(t, s)
	writer.set(t, "k", 0, 0, []byte("value"))
	wantValue(t, local, "k", "value")
	writer.request(t, "delete k")
	wantNoValue(t, local, "k")
	// The server decides which client recaches a stale value.
	writer.set(t, "stale", 0, 0, []byte("v"))
	writer.request(t, "md stale I")
	wantNoValue(t, local, "stale")
	writer.set(t, "large", 0, 0, bytes.Repeat([]byte("large "), 50_000))
	writer.request(t, "flush_all")
	wantNoValue(t, local, "large")
	writer.set(t, "brief", 0, 1, []byte("v"))
	took := check.Eventually(t, "expiry", func() bool { _, _, ok := local.Get(nil, []byte("brief")); return !ok })
	// One second to live, one of rounding, and one for a loaded machine.
	if took > 3*time.Second {
		t.Errorf("a ttl of 1 s expired after %v, want at most 3 s", took)
	}
}

func TestReadsAreReportedToServer(t *testing.T) {
	s := startLarderd(t)
	writer, local := dial(t, s), attach(t, s)
	const keys = 2000
	for i := range keys {
		writer.set(t, fmt.Sprint("k", i), 0, 0, []byte("v"))
	}
	for i := range keys {
		if _, _, ok := local.Get(nil, fmt.Append(nil, "k", i)); !ok {
			t.Fatalf("Get(k%d): not found", i)
		}
	}
	// One read in two is reported, at random, and counted twice: the sum is exact within 20 %.
	check.Eventually(t, "reported hits", func() bool { return writer.stat(t, "get_hits") > keys*8/10 })
	if hits := writer.stat(t, "get_hits"); hits > keys*12/10 {
		t.Errorf("get_hits = %d for %d reads, want at most %d", hits, keys, keys*12/10)
	}
}

func TestAttachmentFollowsRestartedServer(t *testing.T) {
	s := startLarderd(t)
	local := attach(t, s)
	dial(t, s).set(t, "k", 0, 0, []byte("old"))
	old, _ := local.Identity()
	wantValue(t, local, "k", "old")
	s.kill()
	// The kernel closes the connection immediately.
	took := check.Eventually(t, "end of the server", func() bool { return !local.IsLive() })
	if took > time.Second {
		t.Errorf("the end of the server was detected after %v, want at most 1 s", took)
	}
	wantNoValue(t, local, "k")
	next := startLarderdAt(t, s.socket)
	dial(t, next).set(t, "k", 0, 0, []byte("new"))
	check.Eventually(t, "the new server", local.IsLive)
	wantValue(t, local, "k", "new")
	identity, ok := local.Identity()
	check.Equal(t, "Identity found", ok, true)
	check.Equal(t, "Identity is that of the old server", identity == old, false)
}

func TestConfirmDetectsReplacedServer(t *testing.T) {
	s := startLarderd(t)
	local := attach(t, s)
	before := countDescriptors(t)
	for range 10 {
		check.ErrorIs(t, "Confirm", local.Confirm(context.Background()), nil)
	}
	if after := countDescriptors(t); after > before {
		t.Errorf("%d descriptors after Confirm, want at most %d", after, before)
	}
	// A second server takes the socket; the first one keeps serving its connections.
	next := startLarderdAt(t, s.socket)
	isReplaced := func() bool { return errors.Is(local.Confirm(context.Background()), reader.ErrReplaced) }
	check.Eventually(t, "the second server", isReplaced)
	check.Equal(t, "IsLive with the first server", local.IsLive(), true)
	next.kill()
	s.kill()
	err := local.Confirm(context.Background())
	if err == nil || errors.Is(err, reader.ErrReplaced) {
		t.Errorf("Confirm without a server: error %v, want that of the socket", err)
	}
}

func TestUpgradeKeepsMemory(t *testing.T) {
	s := startLarderd(t)
	local := attach(t, s)
	dial(t, s).set(t, "k", 0, 0, []byte("old"))
	old := dial(t, s).stat(t, "pid")
	s.signal(t, syscall.SIGUSR2)
	check.Eventually(t, "the new process", func() bool { return dial(t, s).stat(t, "pid") != old })
	successor := dial(t, s).stat(t, "pid")
	t.Cleanup(func() { _ = syscall.Kill(successor, syscall.SIGKILL) })
	check.ErrorIs(t, "Confirm", local.Confirm(context.Background()), nil)
	wantValue(t, local, "k", "old")
	dial(t, s).set(t, "k", 0, 0, []byte("new"))
	wantValue(t, local, "k", "new")
	_ = syscall.Kill(successor, syscall.SIGKILL)
	s.kill()
}

func TestStoppedServerIsDetected(t *testing.T) {
	s := startLarderd(t)
	local := attach(t, s)
	dial(t, s).set(t, "k", 0, 0, []byte("v"))
	found := func() bool { _, _, ok := local.Get(nil, []byte("k")); return ok }
	s.signal(t, syscall.SIGSTOP)
	took := check.Eventually(t, "the stopped server", func() bool { return !found() })
	s.signal(t, syscall.SIGCONT)
	// The limit is three seconds of clock drift, in whole seconds; the rest is for a loaded
	// machine.
	if took < time.Second || took > 6*time.Second {
		t.Errorf("the stopped server was detected after %v, want 1 s to 6 s", took)
	}
	check.Eventually(t, "the continued server", found)
}

func TestServerThatDoesNotShareMemory(t *testing.T) {
	for _, program := range []string{"larderd", "memcached"} {
		t.Run(program, func(t *testing.T) {
			_, err := reader.Attach(context.Background(), testserver.Start(t, program))
			check.ErrorIs(t, "Attach", err, reader.ErrNotShared)
		})
	}
	_, err := reader.Attach(context.Background(), testserver.Socket(t))
	check.ErrorIs(t, "Attach without a server", err, os.ErrNotExist)
}

func TestAttachRejectsInvalidResponses(t *testing.T) {
	_, region := sceneNamed(t, "kinds")
	file, err := os.Open(copyRegion(t, region, func([]byte) {}))
	check.NoError(t, err)
	defer file.Close()
	pipe, other, err := os.Pipe()
	check.NoError(t, err)
	defer pipe.Close()
	defer other.Close()
	identity := fmt.Sprintf("%016x%016x", binary.LittleEndian.Uint64(region[96:]), binary.LittleEndian.Uint64(region[88:]))
	pass := func(line string, files ...*os.File) func(*net.UnixConn) {
		// Call Fd here, not where the descriptor is sent: Fd changes the file, and servers of two cases
		// may run at the same time.
		var rights []int
		for _, file := range files {
			rights = append(rights, int(file.Fd()))
		}
		return func(conn *net.UnixConn) {
			_, _, _ = conn.WriteMsgUnix([]byte(line), syscall.UnixRights(rights...), nil)
		}
	}
	good := fmt.Sprintf("REGION %s %d 5 2\r\n", identity, len(region))
	for name, answer := range map[string]func(*net.UnixConn){
		"nothing":           func(*net.UnixConn) {},
		"an error":          pass("ERROR\r\n"),
		"a rejection":       pass("CLIENT_ERROR this connection may not read the memory\r\n"),
		"no line end":       pass(strings.Repeat("x", 1000)),
		"no descriptor":     pass(good),
		"a descriptor only": pass("x", file),
		"an error with one": pass("ERROR\r\n", file),
		"no numbers":        pass("REGION "+identity+" x y z\r\n", file),
		"no reads":          pass(fmt.Sprintf("REGION %s %d 5 0\r\n", identity, len(region)), file),
		"another format":    pass(fmt.Sprintf("REGION %s %d 4 2\r\n", identity, len(region)), file),
		"another identity":  pass(fmt.Sprintf("REGION %032d %d 5 2\r\n", 7, len(region)), file),
		"another size":      pass(fmt.Sprintf("REGION %s %d 5 2\r\n", identity, len(region)+1), file),
		"a pipe":            pass(good, pipe),
		"several files":     pass("REGION x\r\n", file, file, file),
	} {
		t.Run(name, func(t *testing.T) {
			before, running := countDescriptors(t), runtime.NumGoroutine()
			s := serveResponse(t, answer)
			_, err := reader.Attach(context.Background(), s.socket)
			if err == nil || !strings.Contains(err.Error(), s.socket) {
				t.Fatalf("Attach: error %v, want one with the path %s", err, s.socket)
			}
			t.Log(err)
			// Two more: the listener, and a connection that the server has not closed yet.
			check.Eventually(t, "close of descriptors", func() bool { return countDescriptors(t) <= before+2 })
			waitForGoroutines(t, running+1)
		})
	}
	t.Run("no response in time", func(t *testing.T) {
		s := serveResponse(t, func(*net.UnixConn) { time.Sleep(time.Second) })
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		started := time.Now()
		if _, err := reader.Attach(ctx, s.socket); err == nil {
			t.Error("Attach: no error, want a timeout")
		}
		// This is less than the time that the server needs to close the connection.
		if took := time.Since(started); took > 900*time.Millisecond {
			t.Errorf("Attach with a timeout of 50 ms took %v, want at most 900 ms", took)
		}
	})
}

func TestCloseReleasesResources(t *testing.T) {
	s := startLarderd(t)
	dial(t, s).set(t, "k", 0, 0, []byte("v"))
	before, running := countDescriptors(t), runtime.NumGoroutine()
	var all []*reader.Attachment
	for range 10 {
		local := attach(t, s)
		wantValue(t, local, "k", "v")
		all = append(all, local)
	}
	for _, local := range all {
		check.ErrorIs(t, "Close", local.Close(), nil)
		wantNoValue(t, local, "k")
		check.Equal(t, "IsLive after Close", local.IsLive(), false)
		check.ErrorIs(t, "second Close", local.Close(), reader.ErrClosed)
	}
	waitForGoroutines(t, running)
	if after := countDescriptors(t); after > before {
		t.Errorf("%d descriptors after Close, want at most %d", after, before)
	}
}

// record returns a value that shows whether it is complete: its key, a number, filler, and a
// checksum.
func record(into []byte, key string, number uint32, bytes int) []byte {
	into = append(append(into[:0], key...), ' ')
	for len(into) < bytes {
		into = binary.LittleEndian.AppendUint32(into, number*uint32(len(into)))
	}
	return binary.LittleEndian.AppendUint32(into, crc32.ChecksumIEEE(into))
}

// isWhole reports whether a value is a complete record of a key.
func isWhole(value []byte, key string) bool {
	end := len(value) - 4
	return end > len(key) && string(value[:len(key)+1]) == key+" " &&
		crc32.ChecksumIEEE(value[:end]) == binary.LittleEndian.Uint32(value[end:])
}

// Two writers overwrite values of all lengths in a cache that is too small for all of them.
func TestConcurrentReadsReturnCompleteValues(t *testing.T) {
	s := startLarderd(t, "-m", "16", "-t", "2")
	const keys = 3000
	lengths := []int{20, 100, 900, 5000, 30_000, 200_000}
	stop := time.Now().Add(4 * time.Second)
	var writers, readers sync.WaitGroup
	var written, hits, wrong atomic.Int64
	for range 2 {
		conn := dial(t, s)
		writers.Add(1)
		go func() {
			defer writers.Done()
			var value, line []byte
			for number := uint32(1); time.Now().Before(stop); number++ {
				key := fmt.Sprint("key ", rand.IntN(keys))
				key = strings.ReplaceAll(key, " ", "-")
				length := lengths[min(rand.IntN(20), rand.IntN(20), rand.IntN(20))%len(lengths)]
				value = record(value, key, number, length)
				line = fmt.Appendf(line[:0], "set %s 0 0 %d noreply\r\n", key, len(value))
				if _, err := conn.Write(append(append(line, value...), "\r\n"...)); err != nil {
					t.Errorf("write: %v", err)
					return
				}
				written.Add(1)
			}
		}()
	}
	local := attach(t, s)
	for range 2 {
		readers.Add(1)
		go func() {
			defer readers.Done()
			var value []byte
			for time.Now().Before(stop) {
				key := fmt.Sprint("key-", rand.IntN(keys))
				found, _, ok := local.Get(value[:0], []byte(key))
				value = found
				if !ok {
					continue
				}
				hits.Add(1)
				if !isWhole(found, key) {
					wrong.Add(1)
				}
			}
		}()
	}
	writers.Wait()
	readers.Wait()
	t.Logf("%d values written, %d found", written.Load(), hits.Load())
	if wrong.Load() > 0 {
		t.Errorf("%d of %d values are wrong, want none", wrong.Load(), hits.Load())
	}
	// This is far fewer than any machine does in four seconds.
	if written.Load() < 1000 || hits.Load() < 1000 {
		t.Errorf("%d values written and %d found, want at least 1000 each", written.Load(), hits.Load())
	}
}

// Numbers and appended values change in place.
func TestConcurrentReadsReturnConsistentChanges(t *testing.T) {
	s := startLarderd(t)
	writer, local := dial(t, s), attach(t, s)
	writer.set(t, "number", 0, 0, []byte("1000000000000"))
	writer.set(t, "grown", 0, 0, []byte("."))
	var done atomic.Bool
	var reading sync.WaitGroup
	reading.Add(1)
	go func() {
		defer reading.Done()
		var last, lastCAS uint64
		longest := 0
		for !done.Load() {
			value, info, ok := local.Get(nil, []byte("number"))
			var number uint64
			if ok {
				if _, err := fmt.Sscanf(string(value), "%d", &number); err != nil || len(value) != 13 {
					t.Errorf("Get(number) = %q, want 13 digits", value)
				}
				if number < last || info.CAS < lastCAS || (number > last) != (info.CAS > lastCAS) {
					t.Errorf("number %d with version %d after %d with %d, want both or none to grow",
						number, info.CAS, last, lastCAS)
				}
				last, lastCAS = number, info.CAS
			}
			value, _, ok = local.Get(nil, []byte("grown"))
			if ok && (len(value) < longest || strings.Trim(string(value[1:]), "0123456789") != "") {
				t.Errorf("Get(grown) = %d bytes %.40q after %d bytes, want more digits", len(value), value, longest)
			}
			longest = max(longest, len(value))
		}
	}()
	for i := range 20_000 {
		writer.request(t, "incr number 1")
		if i%4 == 0 {
			writer.request(t, "append grown 0 0 1\r\n%d", i/4%10)
		}
	}
	done.Store(true)
	reading.Wait()
}
