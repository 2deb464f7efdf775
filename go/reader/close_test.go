package reader_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"larder.example/larder/internal/check"
	"larder.example/larder/reader"
)

// Concurrent readers find nothing after Close, and Close releases the file immediately.
func TestCloseDuringReads(t *testing.T) {
	scene, text := sceneNamed(t, "kinds")
	path := copyRegion(t, text, func([]byte) {})
	for range 10 {
		region, err := reader.Open(path)
		check.NoError(t, err)
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
							t.Errorf("Get(%q): %v", c.key(), err)
						}
					}
					if round == 0 {
						ready.Done()
					}
				}
			}()
		}
		ready.Wait()
		check.Equal(t, "mappings before Close", countMappings(t, path), 1)
		check.NoError(t, region.Close())
		check.Equal(t, "mappings after Close", countMappings(t, path), 0)
		readers.Wait()
		check.ErrorIs(t, "second Close", region.Close(), reader.ErrClosed)
		dst := region.GetMany([]byte("unchanged"), [][]byte{scene.cases[0].key()}, nil)
		check.Equal(t, "GetMany after Close", string(dst), "unchanged")
		check.Equal(t, "IsLive after Close", region.IsLive(), false)
	}
}

// Half of the regions are closed, the others are only unreachable.
func TestGarbageCollectorUnmapsRegions(t *testing.T) {
	_, text := sceneNamed(t, "flushed")
	path := copyRegion(t, text, func([]byte) {})
	before := len(mappings(t))
	for i := range 20 {
		region, err := reader.Open(path)
		check.NoError(t, err)
		if i%2 == 0 {
			_ = region.Close()
		}
	}
	check.Eventually(t, "release of the addresses", func() bool {
		runtime.GC()
		time.Sleep(time.Millisecond)
		// The runtime may have added some mappings during the test.
		return countMappings(t, path) == 0 && len(mappings(t)) <= before+5
	})
}
