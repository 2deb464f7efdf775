//go:build linux && !larder_heap

package larder

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"larder.example/larder/internal/check"
)

// mappedBytes returns the sizes of all mappings of the process.
func mappedBytes(t testing.TB) (total int64) {
	t.Helper()
	maps := must[[]byte](t)(os.ReadFile("/proc/self/maps"))
	for _, line := range regexp.MustCompile(`(?m)^([0-9a-f]+)-([0-9a-f]+) `).FindAllSubmatch(maps, -1) {
		start := must[uint64](t)(strconv.ParseUint(string(line[1]), 16, 64))
		end := must[uint64](t)(strconv.ParseUint(string(line[2]), 16, 64))
		total += int64(end - start)
	}
	return total
}

func TestCloseLeavesNoGoroutineDescriptorOrMapping(t *testing.T) {
	check.GoroutineLeaks(t)
	check.DescriptorLeaks(t)
	before := mappedBytes(t)
	path := filepath.Join(t.TempDir(), "cache")
	const memory = 256 << 20
	for at := range 50 {
		cache := must[*Cache](t)(Open(Options{
			Memory: memory, Sweep: time.Hour, OnRemove: func(string, []byte, Reason) {},
		}))
		// The tables are on Go's heap.
		if held := mappedBytes(t) - before; at == 0 && held < memory/2 {
			t.Errorf("an open cache maps %d bytes, want at least %d: this test notices nothing", held, memory/2)
		}
		for item := range 100 {
			set(t, cache, fmt.Sprint(item), strings.Repeat("v", 1000))
		}
		check.NoError(t, cache.SaveFile(path))
		must[int](t)(cache.LoadFile(path))
		// Test with iterations that stop early, and with a load in progress.
		for range cache.All("") {
			break
		}
		begun := make(chan struct{})
		go func() {
			_, _ = cache.GetOrLoad(context.Background(), "loading",
				func(ctx context.Context, _ string) ([]byte, time.Duration, error) {
					close(begun)
					<-ctx.Done()
					return nil, 0, ctx.Err()
				})
		}()
		<-begun
		check.NoError(t, cache.Close())
	}
	// Go's own heap grows by less than one cache.
	check.Eventually(t, "release of the memory of 50 closed caches", func() bool {
		return mappedBytes(t)-before < memory
	})
}
