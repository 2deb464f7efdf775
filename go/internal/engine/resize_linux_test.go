//go:build linux && !larder_heap

package engine

import (
	"fmt"
	"os"
	"testing"
)

// residentBytes returns the memory of this process.
func residentBytes(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var all, resident int
	if _, err := fmt.Sscan(string(text), &all, &resident); err != nil {
		t.Fatal(err)
	}
	return resident * os.Getpagesize()
}

func TestALowerBoundGivesMemoryBack(t *testing.T) {
	cache := openTest(t, Config{MemoryBytes: 128 << 20})
	fillUp(t, cache, 150_000)
	full := residentBytes(t)
	if err := cache.SetMemory(16 << 20); err != nil {
		t.Fatal(err)
	}
	// The Go heap changes at the same time.
	const least = 90 << 20
	if given := full - residentBytes(t); given < least {
		t.Errorf("%d bytes were given back of 112 MiB, want at least %d", given, least)
	}
	fillUp(t, cache, 150_000)
	if given := full - residentBytes(t); given < least {
		t.Errorf("%d bytes are given back after more stores, want at least %d", given, least)
	}
	checkUsed(t, cache, 16<<20)
}
