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

	"larder/reader"
)

func TestHitsAreFoundInTheMemoryOfAServer(t *testing.T) {
	s := startLarderd(t, "-m", "64")
	writer, local := dial(t, s), attach(t, s)
	large := bytes.Repeat([]byte("large "), 50_000)
	writer.set(t, "k", 7, 100, []byte("value"))
	writer.set(t, "empty", 0, 0, nil)
	writer.set(t, "large", 0, 0, large)
	writer.set(t, "number", 0, 0, []byte("41"))
	writer.request(t, "incr number 1")
	value, info, ok := local.Get(nil, []byte("k"))
	if !ok || string(value) != "value" || info.Flags != 7 || info.CAS == 0 || info.TTL > 100*time.Second || info.TTL < 90*time.Second {
		t.Error(string(value), info, ok)
	}
	for key, expected := range map[string]string{"empty": "", "large": string(large), "number": "42"} {
		if value, info, ok := local.Get([]byte("> "), []byte(key)); !ok || string(value) != "> "+expected || info.TTL != 0 {
			t.Errorf("%s: %d bytes, %v %v", key, len(value), info, ok)
		}
	}
	found := map[int]string{}
	local.GetMany(nil, [][]byte{[]byte("number"), []byte("none"), []byte("k")}, func(i int, value []byte, _ reader.Info) {
		found[i] = string(value)
	})
	if len(found) != 2 || found[0] != "42" || found[2] != "value" {
		t.Error(found)
	}
	for _, key := range []string{"none", "", strings.Repeat("k", 250), strings.Repeat("k", 300)} {
		if value, _, ok := local.Get(nil, []byte(key)); ok {
			t.Errorf("%q: %q", key, value)
		}
	}
	writer.request(t, "delete k")
	if _, _, ok := local.Get(nil, []byte("k")); ok {
		t.Error("deleted, and found")
	}
	writer.set(t, "stale", 0, 0, []byte("v"))
	writer.request(t, "md stale I")
	if _, _, ok := local.Get(nil, []byte("stale")); ok {
		t.Error("whose part it is to bring the new value is for the server to say")
	}
	writer.request(t, "flush_all")
	if _, _, ok := local.Get(nil, []byte("large")); ok {
		t.Error("flushed, and found")
	}
	writer.set(t, "brief", 0, 1, []byte("v"))
	if took := waitUntil(t, "expiry", func() bool { _, _, ok := local.Get(nil, []byte("brief")); return !ok }); took > 3*time.Second {
		t.Error(took)
	}
}

// One read of two is told the server, who counts each as two.
func TestWhatIsReadIsTold(t *testing.T) {
	s := startLarderd(t)
	writer, local := dial(t, s), attach(t, s)
	const keys = 2000
	for i := range keys {
		writer.set(t, fmt.Sprint("k", i), 0, 0, []byte("v"))
	}
	for i := range keys {
		if _, _, ok := local.Get(nil, fmt.Append(nil, "k", i)); !ok {
			t.Fatal("not found: k", i)
		}
	}
	waitUntil(t, "hits are queue", func() bool { return writer.stat(t, "get_hits") > keys*8/10 })
	if hits := writer.stat(t, "get_hits"); hits > keys*12/10 {
		t.Errorf("%d hits were queue of %d", hits, keys)
	}
}

// A server that was killed is believed no more, and one that was started in its place is found.
func TestANewServerTakesTheOldOnesPlace(t *testing.T) {
	s := startLarderd(t)
	local := attach(t, s)
	dial(t, s).set(t, "k", 0, 0, []byte("old"))
	old, _ := local.Identity()
	if value, _, ok := local.Get(nil, []byte("k")); !ok || string(value) != "old" {
		t.Fatal(ok)
	}
	s.kill()
	if took := waitUntil(t, "a server's end is noticed", func() bool { return !local.IsLive() }); took > time.Second {
		t.Error(took)
	}
	if _, _, ok := local.Get(nil, []byte("k")); ok {
		t.Error("found in the memory of a dead server")
	}
	next := startServer(t, larderdPath(t), s.socket, "--local-readers", "same-uid", "-u", user())
	dial(t, next).set(t, "k", 0, 0, []byte("new"))
	waitUntil(t, "the new one is found", local.IsLive)
	if value, _, ok := local.Get(nil, []byte("k")); !ok || string(value) != "new" {
		t.Error(string(value), ok)
	}
	if identity, ok := local.Identity(); !ok || identity == old {
		t.Error(identity, ok)
	}
}

// Who has opened another connection to the socket asks whether it leads to the server whose memory is read.
func TestAnAttachmentIsConfirmedByTheServerThatIsThere(t *testing.T) {
	s := startLarderd(t)
	local := attach(t, s)
	before := countDescriptors(t)
	for range 10 {
		if err := local.Confirm(context.Background()); err != nil {
			t.Error(err)
		}
	}
	if after := countDescriptors(t); after > before {
		t.Errorf("%d descriptors were %d", after, before)
	}
	// A second server takes the socket's name; the first one serves the connections that it has.
	next := startServer(t, larderdPath(t), s.socket, "--local-readers", "same-uid", "-u", user())
	isReplaced := func() bool { return errors.Is(local.Confirm(context.Background()), reader.ErrReplaced) }
	waitUntil(t, "another server is there", isReplaced)
	if !local.IsLive() {
		t.Error("the one before does not serve on")
	}
	next.kill()
	s.kill()
	if err := local.Confirm(context.Background()); err == nil || errors.Is(err, reader.ErrReplaced) {
		t.Error(err)
	}
}

// An upgrade hands the memory over: the readers of the old process read what the new one stores.
func TestAnUpgradeKeepsTheMemoryThatIsRead(t *testing.T) {
	s := startLarderd(t)
	local := attach(t, s)
	dial(t, s).set(t, "k", 0, 0, []byte("old"))
	old := dial(t, s).stat(t, "pid")
	s.signal(t, syscall.SIGUSR2)
	waitUntil(t, "another process serves", func() bool { return dial(t, s).stat(t, "pid") != old })
	successor := dial(t, s).stat(t, "pid")
	t.Cleanup(func() { _ = syscall.Kill(successor, syscall.SIGKILL) })
	if err := local.Confirm(context.Background()); err != nil {
		t.Error(err)
	}
	if value, _, ok := local.Get(nil, []byte("k")); !ok || string(value) != "old" {
		t.Error(string(value), ok)
	}
	dial(t, s).set(t, "k", 0, 0, []byte("new"))
	if value, _, ok := local.Get(nil, []byte("k")); !ok || string(value) != "new" {
		t.Error(string(value), ok)
	}
	_ = syscall.Kill(successor, syscall.SIGKILL)
	s.kill()
}

func TestAStoppedServerIsBelievedForSomeSeconds(t *testing.T) {
	s := startLarderd(t)
	local := attach(t, s)
	dial(t, s).set(t, "k", 0, 0, []byte("v"))
	found := func() bool { _, _, ok := local.Get(nil, []byte("k")); return ok }
	s.signal(t, syscall.SIGSTOP)
	took := waitUntil(t, "a stopped server is noticed", func() bool { return !found() })
	s.signal(t, syscall.SIGCONT)
	if took < time.Second || took > 6*time.Second {
		t.Error(took)
	}
	waitUntil(t, "it is believed again", found)
}

func TestAServerThatPassesNoMemoryIsAnError(t *testing.T) {
	for _, program := range []string{larderdPath(t), "/usr/bin/memcached"} {
		if _, err := os.Stat(program); err != nil {
			t.Log(err)
			continue
		}
		s := startServer(t, program, tempSocket(t), "-u", user())
		if _, err := reader.Attach(context.Background(), s.socket); !errors.Is(err, reader.ErrNotShared) {
			t.Error(program, err)
		}
	}
	if _, err := reader.Attach(context.Background(), tempSocket(t)); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// answering is a server that answers in its own way.
func serveResponse(t *testing.T, answer func(*net.UnixConn)) *server {
	t.Helper()
	socket := tempSocket(t)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 100))
			answer(conn.(*net.UnixConn))
			_ = conn.Close()
		}
	}()
	return &server{socket: socket}
}

func countDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// goroutines waits for those that are just ending.
func waitForGoroutines(t *testing.T, atMost int) {
	t.Helper()
	waitUntil(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= atMost })
}

func TestWhateverAServerAnswersIsAnErrorAndNoLeak(t *testing.T) {
	_, region := sceneNamed(t, "kinds")
	file, err := os.Open(copyRegion(t, region, func([]byte) {}))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	pipe, other, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	defer other.Close()
	identity := fmt.Sprintf("%016x%016x", binary.LittleEndian.Uint64(region[96:]), binary.LittleEndian.Uint64(region[88:]))
	pass := func(line string, files ...*os.File) func(*net.UnixConn) {
		return func(conn *net.UnixConn) {
			var rights []int
			for _, file := range files {
				rights = append(rights, int(file.Fd()))
			}
			_, _, _ = conn.WriteMsgUnix([]byte(line), syscall.UnixRights(rights...), nil)
		}
	}
	good := fmt.Sprintf("REGION %s %d 5 2\r\n", identity, len(region))
	for name, answer := range map[string]func(*net.UnixConn){
		"nothing":           func(*net.UnixConn) {},
		"an error":          pass("ERROR\r\n"),
		"a refusal":         pass("CLIENT_ERROR this connection may not read the memory\r\n"),
		"no end":            pass(strings.Repeat("x", 1000)),
		"no descriptor":     pass(good),
		"a descriptor only": pass("x", file),
		"an error and one":  pass("ERROR\r\n", file),
		"no numbers":        pass("REGION "+identity+" x y z\r\n", file),
		"no reads":          pass(fmt.Sprintf("REGION %s %d 5 0\r\n", identity, len(region)), file),
		"another format":    pass(fmt.Sprintf("REGION %s %d 4 2\r\n", identity, len(region)), file),
		"another identity":  pass(fmt.Sprintf("REGION %032d %d 5 2\r\n", 7, len(region)), file),
		"another size":      pass(fmt.Sprintf("REGION %s %d 5 2\r\n", identity, len(region)+1), file),
		"a pipe":            pass(good, pipe),
		"several":           pass("REGION x\r\n", file, file, file),
	} {
		t.Run(name, func(t *testing.T) {
			before, running := countDescriptors(t), runtime.NumGoroutine()
			s := serveResponse(t, answer)
			_, err := reader.Attach(context.Background(), s.socket)
			if err == nil || !strings.Contains(err.Error(), s.socket) {
				t.Fatal(err)
			}
			t.Log(err)
			// The listener and the goroutine of it.
			waitUntil(t, "descriptors are closed", func() bool { return countDescriptors(t) <= before+2 })
			waitForGoroutines(t, running+1)
		})
	}
	t.Run("never", func(t *testing.T) {
		s := serveResponse(t, func(*net.UnixConn) { time.Sleep(time.Second) })
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		started := time.Now()
		if _, err := reader.Attach(ctx, s.socket); err == nil || time.Since(started) > 900*time.Millisecond {
			t.Error(err, time.Since(started))
		}
	})
}

func TestAClosedAttachmentLeavesNothing(t *testing.T) {
	s := startLarderd(t)
	dial(t, s).set(t, "k", 0, 0, []byte("v"))
	before, running := countDescriptors(t), runtime.NumGoroutine()
	var all []*reader.Attachment
	for range 10 {
		local := attach(t, s)
		if _, _, ok := local.Get(nil, []byte("k")); !ok {
			t.Error("not found")
		}
		all = append(all, local)
	}
	for _, local := range all {
		if err := local.Close(); err != nil {
			t.Error(err)
		}
		if _, _, ok := local.Get(nil, []byte("k")); ok || local.IsLive() {
			t.Error("found after the end")
		}
		if err := local.Close(); !errors.Is(err, reader.ErrClosed) {
			t.Error(err)
		}
	}
	waitForGoroutines(t, running)
	if after := countDescriptors(t); after > before {
		t.Errorf("%d descriptors were %d", after, before)
	}
}

// record is a value that tells whether it is whole: its key, a number, filler, and a checksum.
func record(into []byte, key string, number uint32, bytes int) []byte {
	into = append(append(into[:0], key...), ' ')
	for len(into) < bytes {
		into = binary.LittleEndian.AppendUint32(into, number*uint32(len(into)))
	}
	return binary.LittleEndian.AppendUint32(into, crc32.ChecksumIEEE(into))
}

func isWhole(value []byte, key string) bool {
	end := len(value) - 4
	return end > len(key) && string(value[:len(key)+1]) == key+" " &&
		crc32.ChecksumIEEE(value[:end]) == binary.LittleEndian.Uint32(value[end:])
}

// Writers overwrite values of all lengths as fast as they can, in a cache that has no room for all of them, while they are
// read: what is found is always whole, and under its key.
func TestNoReaderEverSeesAWrongValue(t *testing.T) {
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
					t.Error(err)
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
	if wrong.Load() > 0 || written.Load() < 1000 || hits.Load() < 1000 {
		t.Errorf("%d of %d values found are wrong; %d were written", wrong.Load(), hits.Load(), written.Load())
	}
}

// Values that change where they are: numbers, and such as are appended to.
func TestNoReaderEverSeesAHalfDoneChange(t *testing.T) {
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
					t.Errorf("%q: %v", value, err)
				}
				if number < last || info.CAS < lastCAS || (number > last) != (info.CAS > lastCAS) {
					t.Errorf("%d with %d after %d with %d", number, info.CAS, last, lastCAS)
				}
				last, lastCAS = number, info.CAS
			}
			value, _, ok = local.Get(nil, []byte("grown"))
			if ok && (len(value) < longest || strings.Trim(string(value[1:]), "0123456789") != "") {
				t.Errorf("%d bytes after %d: %q", len(value), longest, value)
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
