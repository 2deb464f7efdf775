package bench

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

const testDraws = 1 << 12

// player fills a cache with a load and returns its player.
func player(t *testing.T, load Load, cache Cache) *Player {
	t.Helper()
	folder := t.TempDir()
	if err := load.Draw(folder, testDraws); err != nil {
		t.Fatal(err)
	}
	keys, err := load.Drawn(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := load.Fill(cache); err != nil {
		t.Fatal(err)
	}
	return NewPlayer(load, cache, keys)
}

func open(t *testing.T, name string, load Load) Cache {
	t.Helper()
	kind, err := KindOf(name)
	if err != nil {
		t.Fatal(err)
	}
	cache, err := kind.Open(load.Items, load.Size, load.Limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cache.Close)
	return cache
}

// A round fails if an item is missing or has a wrong value.
func TestEachCacheDoesItsOperations(t *testing.T) {
	loads := []Load{
		{"small", 2000, 100, 64 << 20, false, false},
		{"large", 200, 10 << 10, 64 << 20, true, false},
	}
	for _, load := range loads {
		for _, kind := range Kinds {
			t.Run(load.Name+"/"+kind.Name, func(t *testing.T) {
				p := player(t, load, open(t, kind.Name, load))
				done := 0
				for _, op := range load.Ops() {
					if !p.Has(op) {
						continue
					}
					done++
					result, err := p.Play(op, time.Minute, 20_000)
					if err != nil {
						t.Fatal(err)
					}
					if result.Ops < 20_000 || op != "Set" && result.Gets != result.Ops || result.Wall <= 0 {
						t.Errorf("%s: %+v, want 20,000 operations, and as many reads", op, result)
					}
				}
				if done < 2 {
					t.Errorf("%d operations, want Get and Set at least", done)
				}
			})
		}
	}
}

func TestAFullCacheMissesAndHits(t *testing.T) {
	load := Load{"full", 100_000, 1000, 40 << 20, true, true}
	for _, kind := range Kinds {
		t.Run(kind.Name, func(t *testing.T) {
			p := player(t, load, open(t, kind.Name, load))
			result, err := p.Play("aside", time.Minute, 100_000)
			if err != nil {
				t.Fatal(err)
			}
			if result.Hits == 0 || result.Hits == result.Gets {
				t.Errorf("%d of %d gets hit, want some", result.Hits, result.Gets)
			}
		})
	}
}

func TestLarderHasAllOperations(t *testing.T) {
	for _, load := range Loads {
		p := NewPlayer(load, open(t, "larder", load), make(Keys, KeyBytes*testDraws))
		for _, op := range load.Ops() {
			if !p.Has(op) {
				t.Errorf("larder has no %q of the load %q", op, load.Name)
			}
		}
	}
}

// broken loses or confuses items.
type broken struct {
	values   map[string][]byte
	isLosing bool
	isMixing bool
}

func (b *broken) Get(key string) ([]byte, bool) {
	value, ok := b.values[key]
	if b.isMixing {
		value = append([]byte("another!"), value[8:]...)
	}
	return value, ok && !b.isLosing
}

func (b *broken) Set(key string, value []byte) {
	b.values[strings.Clone(key)] = copyOf(value)
}
func (b *broken) Close() {}

func TestABrokenCacheIsFound(t *testing.T) {
	load := Load{"small", 1000, 100, 0, false, false}
	cache := &broken{values: map[string][]byte{}}
	p := player(t, load, cache)
	cases := map[string]struct{ isLosing, isMixing bool }{
		"missed":      {true, false},
		"another key": {false, true},
	}
	for want, fault := range cases {
		cache.isLosing, cache.isMixing = fault.isLosing, fault.isMixing
		if _, err := p.Play("Get", time.Minute, 1000); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Play = %v, want an error with %q", err, want)
		}
		if err := load.Fill(cache); err == nil {
			t.Errorf("Fill succeeds with a cache that is broken: %s", want)
		}
	}
}

func TestARoundEndsByTime(t *testing.T) {
	load := Load{"small", 1000, 100, 64 << 20, false, false}
	p := player(t, load, open(t, "larder", load))
	result, err := p.Play("View", 20*time.Millisecond, math.MaxInt)
	if err != nil || result.Wall < 20*time.Millisecond || result.Wall > 10*time.Second {
		t.Errorf("Play = %v, %v, want 20 ms", result.Wall, err)
	}
}

func TestDrawnKeysAreThoseOfTheLoad(t *testing.T) {
	for _, isZipf := range []bool{false, true} {
		load, folder := Load{Items: 1000, IsZipf: isZipf}, t.TempDir()
		if err := load.Draw(folder, testDraws); err != nil {
			t.Fatal(err)
		}
		keys, err := load.Drawn(folder)
		if err != nil {
			t.Fatal(err)
		}
		counts, most := map[string]int{}, 0
		for at := range keys.Len() {
			counts[keys.At(at)]++
			most = max(most, counts[keys.At(at)])
		}
		if keys.Len() != testDraws || len(counts) > load.Items || isZipf != (most > testDraws/20) {
			t.Errorf("zipf %v: %d keys, %d different, the most frequent %d times", isZipf, keys.Len(), len(counts), most)
		}
	}
}

func TestHugePagesNeverAppliesToTheProcess(t *testing.T) {
	if err := HugePages("never"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "THP_enabled:\t0") {
		t.Error("/proc/self/status does not have THP_enabled: 0")
	}
}
