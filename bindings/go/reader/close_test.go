package reader_test

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"larder/reader"
)

// mappings are the lines of this process's mappings that name a file.
func mappings(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func countMappings(t *testing.T, path string) (count int) {
	for _, line := range mappings(t) {
		if strings.HasSuffix(line, path) {
			count++
		}
	}
	return count
}

// Whoever is reading while a region is closed reads on, and finds nothing any more; the file is let go of at once.
func TestARegionMayBeClosedWhileOthersRead(t *testing.T) {
	scene, text := sceneNamed(t, "kinds")
	path := copyRegion(t, text, func([]byte) {})
	for range 10 {
		region, err := reader.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		var ready, readers sync.WaitGroup
		for range 4 {
			ready.Add(1)
			readers.Add(1)
			go func() {
				defer readers.Done()
				var value []byte
				found := 0
				for round := 0; round == 0 || found > 0; round++ {
					found = 0
					for _, c := range scene.cases {
						one, info, ok := region.Get(value[:0], c.key())
						value = one
						if !ok {
							continue
						}
						found++
						if err := c.check(one, info, true); err != nil {
							t.Errorf("%q: %v", c.key(), err)
						}
					}
					if round == 0 {
						ready.Done()
					}
				}
			}()
		}
		ready.Wait()
		if countMappings(t, path) != 1 {
			t.Fatal("it is not mapped")
		}
		if err := region.Close(); err != nil {
			t.Fatal(err)
		}
		if countMappings(t, path) != 0 {
			t.Fatal("it is still mapped")
		}
		readers.Wait()
		if err := region.Close(); !errors.Is(err, reader.ErrClosed) {
			t.Error(err)
		}
		if dst := region.GetMany([]byte("as it was"), [][]byte{scene.cases[0].key()}, nil); string(dst) != "as it was" || region.IsLive() {
			t.Errorf("%q", dst)
		}
	}
}

// The addresses of closed regions come back, and all of a region that was dropped.
func TestTheCollectorTakesWhatNobodyReads(t *testing.T) {
	_, text := sceneNamed(t, "flushed")
	path := copyRegion(t, text, func([]byte) {})
	before := len(mappings(t))
	for i := range 20 {
		region, err := reader.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			_ = region.Close()
		}
	}
	waitUntil(t, "the addresses come back", func() bool {
		runtime.GC()
		time.Sleep(time.Millisecond)
		// The runtime may have mapped something meanwhile.
		return countMappings(t, path) == 0 && len(mappings(t)) <= before+5
	})
}
