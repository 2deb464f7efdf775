package shared

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"larder.example/larder/internal/check"
)

// openTiered opens a cache of 2 MiB with a disk tier. The log is large enough for all items that
// memory evicts, and so is the memory for changes that wait for the disk, so that no item is
// dropped.
func openTiered(t *testing.T, tier Tier) *Cache {
	t.Helper()
	tier.Size, tier.DirtyMemory = 256<<20, 64<<20
	return openCache(t, Options{Memory: 2 << 20, Tier: &tier})
}

func TestTierHasWhatMemoryLacks(t *testing.T) {
	for _, tier := range []Tier{
		{Durability: DurabilityAsync}, {Durability: DurabilityInterval, Interval: time.Second}, {Mode: TierCache},
	} {
		t.Run(fmt.Sprint(tier.Mode, tier.Durability), func(t *testing.T) {
			tier.Path = filepath.Join(t.TempDir(), "tier")
			cache := openTiered(t, tier)
			keys := make([]string, 2000)
			value := func(number int) []byte { return bytes.Repeat([]byte{byte(number % 251)}, 4000) }
			for number := range keys {
				keys[number] = fmt.Sprint("k", number)
				check.NoError(t, cache.Set(keys[number], value(number), 0))
			}
			all := func() {
				t.Helper()
				var batch Batch
				check.NoError(t, cache.GetBatch(&batch, keys...))
				for number := range keys {
					if got, _ := batch.Value(number); !bytes.Equal(got, value(number)) {
						t.Fatalf("%s is not there", keys[number])
					}
				}
			}
			check.NoError(t, cache.Sync())
			all()
			if reads := cache.Stats().Named["tier_reads"]; reads == 0 {
				t.Error("nothing was read from the disk")
			}
			if why := cache.TierTrouble(); why != "" {
				t.Errorf("TierTrouble = %q", why)
			}
			check.NoError(t, cache.Close())
			calls := 0
			tier.Progress = func(done, total int) {
				if calls++; done > total {
					t.Errorf("progress %d of %d", done, total)
				}
			}
			cache = openTiered(t, tier)
			if calls == 0 {
				t.Error("the start reported no progress")
			}
			all()
		})
	}
}

func TestTierLoadsOnlyWhatTheDiskLacks(t *testing.T) {
	cache := openTiered(t, Tier{Path: filepath.Join(t.TempDir(), "tier")})
	set(t, cache, "k", "stored")
	for number := range 1000 {
		set(t, cache, fmt.Sprint("filler ", number), strings.Repeat("f", 4000))
	}
	got := must[[]byte](t)(cache.GetOrLoad(t.Context(), "k", loaderFailing(errors.New("loaded"))))
	if string(got) != "stored" {
		t.Errorf("GetOrLoad = %q", got)
	}
	must[[]byte](t)(cache.GetOrLoad(t.Context(), "other", func(context.Context, string) ([]byte, time.Duration, error) {
		return []byte("loaded"), 0, nil
	}))
	check.Eventually(t, "the store of the load", func() bool { return cache.Contains("other") })
}

// damage overwrites all copies of a value in the files of a directory.
func damage(t *testing.T, directory string, value []byte) {
	t.Helper()
	found := 0
	for _, entry := range must[[]os.DirEntry](t)(os.ReadDir(directory)) {
		path := filepath.Join(directory, entry.Name())
		file := must[*os.File](t)(os.OpenFile(path, os.O_WRONLY, 0))
		rest, at := must[[]byte](t)(os.ReadFile(path)), 0
		for next := bytes.Index(rest, value); next >= 0; next = bytes.Index(rest, value) {
			must[int](t)(file.WriteAt([]byte("damaged"), int64(at+next)))
			rest, at, found = rest[next+len(value):], at+next+len(value), found+1
		}
		check.NoError(t, file.Sync())
		check.NoError(t, file.Close())
	}
	if found == 0 {
		t.Fatal("no file of the directory has the value")
	}
}

// unreadableKey returns a key that is not in memory and whose value on the disk is damaged.
func unreadableKey(t *testing.T, cache *Cache, keys []string) string {
	t.Helper()
	for _, key := range keys {
		switch _, _, err := cache.Read(nil, key); {
		case errors.Is(err, ErrDiskUnreadable):
			return key
		case err != nil:
			t.Errorf("Read: %v", err)
		}
	}
	t.Fatal("memory has all items")
	return ""
}

// Each thread appends to its own segments, and the cache does not evict items from a segment that
// is not full. Any item may therefore still be in memory, however old it is. The test damages all
// items on the disk, so that it does not matter which.
func TestTierReportsADamagedItem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tier")
	cache := openTiered(t, Tier{Path: path})
	value := bytes.Repeat([]byte("to be damaged "), 300)
	keys := make([]string, 1000)
	for number := range keys {
		keys[number] = fmt.Sprint("k", number)
		check.NoError(t, cache.Set(keys[number], value, 0))
	}
	check.NoError(t, cache.Sync())
	damage(t, path, value)
	key := unreadableKey(t, cache, keys)
	if err := cache.GetBatch(new(Batch), "none", key); !errors.Is(err, ErrDiskUnreadable) {
		t.Errorf("GetBatch: %v", err)
	}
	if cache.Contains(key) {
		t.Errorf("Contains(%q) = true, want false", key)
	}
	if why := cache.TierTrouble(); !strings.Contains(why, "damaged") {
		t.Errorf("TierTrouble = %q", why)
	}
}

func TestTierThatCannotBeUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tier")
	for part, options := range map[string]Options{
		"must not be negative":        {Tier: &Tier{Path: path, Size: -1}},
		"larder_tier.path is missing": {Tier: &Tier{Size: 64 << 20}},
		"larder_tier.mode is 7":       {Tier: &Tier{Path: path, Size: 64 << 20, Mode: 7}},
		"/proc/version":               {Tier: &Tier{Path: "/proc/version", Size: 64 << 20}},
	} {
		if _, err := Open("", options); !errors.Is(err, ErrNotOpened) || !strings.Contains(err.Error(), part) {
			t.Errorf("Open: %v, want a reason with %q", err, part)
		}
	}
	shared := Options{Tier: &Tier{Path: path, Size: 64 << 20}}
	_, err := Open(filepath.Join(t.TempDir(), "cache"), shared)
	if !errors.Is(err, ErrNotOpened) || !strings.Contains(err.Error(), "memory of one process") {
		t.Errorf("Open: %v", err)
	}
}

func TestTierProgressMayPanic(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tier")
	cache := openTiered(t, Tier{Path: path})
	set(t, cache, "k", "v")
	check.NoError(t, cache.Close())
	func() {
		defer func() {
			if reason := recover(); reason != "stop" {
				t.Errorf("the panic was %v", reason)
			}
		}()
		openTiered(t, Tier{Path: path, Progress: func(int, int) { panic("stop") }})
	}()
	// The panic has closed the cache.
	wantValue(t, openTiered(t, Tier{Path: path}), "k", "v")
}
