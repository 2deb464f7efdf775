package larder

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// equal reports an error of the form "what = got, want want" if the two differ.
func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %#v, want %#v", what, got, want)
	}
}

// wantError reports an error if err is not target; a nil target wants success.
func wantError(t testing.TB, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: error %v, want %v", what, err, target)
	}
}

// wantValue fails the test if a key has another value than want.
func wantValue(t testing.TB, cache *Cache, key, want string) {
	t.Helper()
	if got, ok := cache.Get(key); !ok || string(got) != want {
		t.Fatalf("Get(%q) = %.40q, %v, want %.40q, true", key, got, ok, want)
	}
}

// wantTTL reports an error if a time to live is not between the two bounds.
func wantTTL(t testing.TB, item Item, least, most time.Duration) {
	t.Helper()
	if item.TTL < least || item.TTL > most {
		t.Errorf("TTL = %v, want %v to %v", item.TTL, least, most)
	}
}

// must fails the test on an error, and returns the value otherwise.
func must[T any](t testing.TB) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// eventually waits until a condition holds, and fails the test after five seconds.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after 5 s still waiting: %s", what)
		}
	}
}

// openCache opens a cache in the process, of 8 MiB unless options say otherwise.
func openCache(t testing.TB, options Options) *Cache {
	t.Helper()
	if options.Memory == 0 {
		options.Memory = 8 << 20
	}
	cache, err := Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cache.Close() })
	return cache
}

// openTwice opens the same cache in a file through two handles.
func openTwice(t *testing.T, options Options) (one, other *Cache) {
	path := filepath.Join(t.TempDir(), "cache")
	options.Memory = 4 << 20
	open := func() *Cache {
		cache := must[*Cache](t)(OpenShared(path, options))
		t.Cleanup(func() { _ = cache.Close() })
		return cache
	}
	return open(), open()
}

// set stores an item that does not expire.
func set(t testing.TB, cache *Cache, key, value string) {
	t.Helper()
	if err := cache.Set(key, []byte(value), 0); err != nil {
		t.Fatalf("Set(%q): %v", key, err)
	}
}

// loaderOf returns a loader that succeeds with a value.
func loaderOf(value string, ttl time.Duration) Loader {
	return func(context.Context, string) ([]byte, time.Duration, error) {
		return []byte(value), ttl, nil
	}
}

// loaderFailing returns a loader that fails with an error.
func loaderFailing(err error) Loader {
	return func(context.Context, string) ([]byte, time.Duration, error) { return nil, 0, err }
}

// loadDuring loads "k", calls meanwhile inside of the loader, and waits until the load has ended.
func loadDuring(t *testing.T, cache *Cache, meanwhile func()) {
	t.Helper()
	done := make(chan struct{})
	loader := func(context.Context, string) ([]byte, time.Duration, error) {
		defer close(done)
		meanwhile()
		return []byte("loaded"), time.Hour, nil
	}
	if _, err := cache.GetOrLoad(t.Context(), "k", loader); err != nil {
		t.Fatalf("GetOrLoad: %v", err)
	}
	<-done
	// A refresh may outlive the call that started it.
	eventually(t, "end of the load", func() bool { return cache.flights.count.Load() == 0 })
}

// checkGoroutineLeaks fails the test if more goroutines run after it than before.
func checkGoroutineLeaks(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
			after := runtime.NumGoroutine()
			if after <= before {
				return
			}
			if time.Now().After(end) {
				stacks := make([]byte, 1<<16)
				t.Fatalf("%d goroutines, want at most %d:\n%s",
					after, before, stacks[:runtime.Stack(stacks, true)])
			}
		}
	})
}

// tempSocket returns a path for a socket. Paths below t.TempDir may exceed the system's limit.
func tempSocket(t *testing.T) string {
	folder := must[string](t)(os.MkdirTemp("", "larder"))
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return filepath.Join(folder, "sock")
}

// connectToServer starts a larderd for the test and connects to it. Without a larderd it skips the
// test, unless LARDERD or CI is set.
func connectToServer(t *testing.T, arguments ...string) *Cache {
	t.Helper()
	program, err := exec.LookPath(cmp.Or(os.Getenv("LARDERD"), "../../target/release/larderd"))
	if err != nil {
		if os.Getenv("LARDERD") == "" && os.Getenv("CI") == "" {
			t.Skip("no larderd found")
		}
		t.Fatal(err)
	}
	socket := tempSocket(t)
	arguments = append(arguments, "-s", socket, "-m", "64", "-t", "2", "-U", "0")
	if os.Getuid() == 0 {
		arguments = append(arguments, "-u", "root")
	}
	server := exec.Command(program, arguments...)
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	// A loaded machine may take seconds to start a process.
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		cache, err := Connect(socket, 0)
		if err == nil {
			t.Cleanup(func() { _ = cache.Close() })
			return cache
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// serveConns starts a server that calls serve for each connection.
func serveConns(t *testing.T, serve func(net.Conn)) (socket string) {
	socket = tempSocket(t)
	listener := must[net.Listener](t)(net.Listen("unix", socket))
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return socket
}
