// Package check holds the assertions that the tests of several packages use.
package check

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"time"
)

// Equal reports an error of the form "what = got, want want" if the two differ.
func Equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %#v, want %#v", what, got, want)
	}
}

// NoError fails the test on an error.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ErrorIs reports an error if err does not match target. A nil target means that err must be nil.
func ErrorIs(t testing.TB, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: error %v, want %v", what, err, target)
	}
}

// Eventually waits until a condition holds, and returns the time that it took. It fails the test
// after 15 seconds.
func Eventually(t testing.TB, what string, condition func() bool) time.Duration {
	t.Helper()
	started := time.Now()
	for ; !condition(); time.Sleep(time.Millisecond) {
		if time.Since(started) > 15*time.Second {
			t.Fatalf("after 15 s still waiting: %s", what)
		}
	}
	return time.Since(started)
}

// GoroutineLeaks fails the test if more goroutines run after its cleanup than run now.
func GoroutineLeaks(t testing.TB) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; {
			if time.Now().After(end) {
				stacks := make([]byte, 1<<16)
				t.Fatalf("%d goroutines, want at most %d:\n%s",
					runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// DescriptorLeaks fails the test if more descriptors are open after its cleanup than are open now.
// It checks nothing on systems without /proc.
func DescriptorLeaks(t testing.TB) {
	t.Helper()
	count := func() int {
		open, _ := os.ReadDir("/proc/self/fd")
		return len(open)
	}
	before := count()
	t.Cleanup(func() {
		for end := time.Now().Add(5 * time.Second); count() > before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d descriptors, want at most %d", count(), before)
			}
		}
	})
}
