package reader_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"larder.example/larder/internal/check"
	"larder.example/larder/reader"
)

// startNear starts an origin and a near cache with copies of its items.
func startNear(t *testing.T) (origin, near *server) {
	origin = startLarderd(t, "--followers", "4")
	near = startLarderd(t, "--origin", origin.socket, "--near-max-stale", "1s", "--origin-timeout", "200ms")
	return origin, near
}

// awaitCopy asks the near cache for a key until its memory has the value.
func awaitCopy(t *testing.T, asks *client, local getter, key, want string) {
	t.Helper()
	check.Eventually(t, "a copy in the memory", func() bool {
		// The first response may be an error: the near cache still connects.
		if _, err := asks.get(make([]byte, 64), []byte(key)); err != nil {
			t.Fatal(err)
		}
		value, _, ok := local.Get(nil, []byte(key))
		return ok && string(value) == want
	})
}

func TestCopiesOfNearCacheAreReadUntilTheyChange(t *testing.T) {
	origin, near := startNear(t)
	writer, asks, local := dial(t, origin), dial(t, near), attach(t, near)
	for i := range 20 {
		want := fmt.Sprint("value ", i)
		writer.set(t, "k", 3, 0, []byte(want))
		awaitCopy(t, asks, local, "k", want)
	}
	found := 0
	keys := [][]byte{[]byte("k"), []byte("none")}
	local.GetMany(nil, keys, func(_ int, value []byte, info reader.Info) {
		found++
		check.Equal(t, "GetMany", string(value), "value 19")
		check.Equal(t, "Flags", info.Flags, 3)
	})
	check.Equal(t, "found", found, 1)
	check.Equal(t, "IsLive", local.IsLive(), true)
	// A write through the near cache drops the copy before its response.
	for i := range 100 {
		want := fmt.Sprint("own ", i)
		asks.set(t, "k", 0, 0, []byte(want))
		if value, _, ok := local.Get(nil, []byte("k")); ok && string(value) != want {
			t.Fatalf("Get(k) = %q after the response to set %q", value, want)
		}
	}
}

// A stopped near cache drops no copies, so that their readers must stop to use them.
func TestStoppedNearCacheIsNotRead(t *testing.T) {
	origin, near := startNear(t)
	writer, asks, local := dial(t, origin), dial(t, near), attach(t, near)
	writer.set(t, "k", 0, 0, []byte("old"))
	awaitCopy(t, asks, local, "k", "old")
	near.signal(t, syscall.SIGSTOP)
	t.Cleanup(func() { near.signal(t, syscall.SIGCONT) })
	writer.set(t, "k", 0, 0, []byte("new"))
	changed, reads := time.Now(), 0
	for time.Since(changed) < 1500*time.Millisecond {
		begun := time.Since(changed)
		_, _, ok := local.Get(nil, []byte("k"))
		if ok {
			reads++
		}
		if ok && begun > time.Second {
			t.Fatalf("Get(k) found the old value %v after the change", begun)
		}
	}
	if reads == 0 {
		t.Error("the memory was never read")
	}
	check.Equal(t, "IsLive", local.IsLive(), false)
	near.signal(t, syscall.SIGCONT)
	awaitCopy(t, asks, local, "k", "new")
}
