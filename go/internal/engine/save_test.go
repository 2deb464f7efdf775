package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"sync"
	"testing"
)

func TestSavedItemsComeBackWithFlagsAndDeadlines(t *testing.T) {
	clock := newClock()
	p := newPair(t, openTest(t, clock.config(Config{MemoryBytes: 64 << 20, CAS: true})), clock.read)
	random := rand.New(rand.NewSource(1))
	for range 20_000 {
		p.step(random, clock, 2000, 3000)
	}
	p.store(0, "large", value(7, 900_000), 3, 0, 0)
	var saved bytes.Buffer
	if err := p.cache.Save(&saved); err != nil {
		t.Fatal(err)
	}
	// In another process the monotonic clock has another origin.
	other := newClock()
	config := other.config(Config{MemoryBytes: 64 << 20})
	config.Now = func() int64 { return other.read() - 500_000 }
	loaded := openTest(t, config)
	other.now.Store(clock.read() + 100)
	clock.advance(100)
	done, err := loaded.Load(&saved)
	if err != nil {
		t.Fatal(err)
	}
	if done.Stored != loaded.Len() || done.Stored == 0 {
		t.Errorf("%d items loaded, %d in the cache", done.Stored, loaded.Len())
	}
	for name := range p.model.items {
		want, exists := p.model.get(name)
		got, item, found := loaded.Peek(nil, name)
		if found != exists || found && !bytes.Equal(got, want.value) || item.Flags != want.flags {
			t.Fatalf("%q: %v %+v, want %v %+v", name, found, item, exists, want)
		}
		if want.deadline != 0 && found && item.Deadline != want.deadline-500_000 {
			t.Fatalf("%q expires at %d, want %d", name, item.Deadline, want.deadline-500_000)
		}
	}
}

// saveSmall returns a saved cache with several blocks, and its items in their order.
func saveSmall(t *testing.T) []byte {
	cache := openTest(t, Config{MemoryBytes: 1 << 20})
	for number := range 3 {
		if _, err := cache.Set(key(number), value(number, 30_000), uint32(number), 0); err != nil {
			t.Fatal(err)
		}
	}
	for number := range 20 {
		if _, err := cache.Set(key(100+number), value(100+number, 20), 0, 60_000); err != nil {
			t.Fatal(err)
		}
	}
	var saved bytes.Buffer
	if err := cache.Save(&saved); err != nil {
		t.Fatal(err)
	}
	return saved.Bytes()
}

// onlySaved fails the test unless all items of a cache are saved items.
func (e *Engine) onlySaved(t *testing.T, what string, loaded int) {
	t.Helper()
	items := 0
	for name, got := range e.All() {
		number := 0
		if _, err := fmt.Sscanf(name, "key:%d", &number); err != nil || !bytes.Equal(got, value(number, len(got))) {
			t.Fatalf("%s: loaded %q", what, name)
		}
		items++
	}
	if items != loaded {
		t.Fatalf("%s: %d items, Load returns %d", what, items, loaded)
	}
}

func TestEveryCutIsNoticed(t *testing.T) {
	saved := saveSmall(t)
	cache := openTest(t, Config{MemoryBytes: 1 << 20})
	for end := range saved {
		// All bytes in the middle of the large values have the same effect.
		if end > 2000 && end < len(saved)-3000 && end%97 != 0 {
			continue
		}
		loaded, err := cache.Load(bytes.NewReader(saved[:end]))
		if !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut at %d: %v", end, err)
		}
		cache.onlySaved(t, fmt.Sprintf("cut at %d", end), loaded.Stored)
		_ = cache.Clear()
	}
	if loaded, err := cache.Load(bytes.NewReader(saved)); err != nil || loaded.Stored != 23 {
		t.Errorf("the whole: %d, %v", loaded.Stored, err)
	}
}

func TestEveryFlippedByteIsNoticed(t *testing.T) {
	saved := saveSmall(t)
	cache := openTest(t, Config{MemoryBytes: 1 << 20})
	for at := range saved {
		if at > 2000 && at < len(saved)-3000 && at%97 != 0 {
			continue
		}
		damaged := bytes.Clone(saved)
		damaged[at] ^= 1 << (at % 8)
		loaded, err := cache.Load(bytes.NewReader(damaged))
		if !errors.Is(err, ErrDamaged) {
			t.Fatalf("flip at %d: %v", at, err)
		}
		cache.onlySaved(t, fmt.Sprintf("flip at %d", at), loaded.Stored)
		_ = cache.Clear()
	}
}

func TestErrorsOfFilesAreReturned(t *testing.T) {
	cache := openTest(t, Config{MemoryBytes: 1 << 20})
	broken := errors.New("broken")
	if err := cache.Save(failing{broken}); !errors.Is(err, broken) {
		t.Errorf("Save: %v", err)
	}
	if _, err := cache.Load(failing{broken}); !errors.Is(err, broken) {
		t.Errorf("Load: %v", err)
	}
	_ = cache.Close()
	if err := cache.Save(io.Discard); !errors.Is(err, ErrClosed) {
		t.Errorf("Save of a closed cache: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestIterationShowsEachKeyThatStaysOnce iterates while the index grows and items are replaced.
func TestIterationShowsEachKeyThatStaysOnce(t *testing.T) {
	cache := openTest(t, Config{MemoryBytes: 32 << 20})
	const stay = 5000
	for number := range stay {
		if _, err := cache.Set("stay:"+key(number), value(number, 20), 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	var writers sync.WaitGroup
	stop := make(chan struct{})
	for worker := range 2 {
		writers.Add(1)
		go func() {
			defer writers.Done()
			for at := worker; ; at += 2 {
				select {
				case <-stop:
					return
				default:
				}
				_, _ = cache.Set("new:"+key(at%80_000), value(at, 20), 0, 0)
				_, _ = cache.Set("stay:"+key(at%stay), value(at%stay, 20+at%50), 0, 0)
				_ = cache.Delete("new:"+key(at/2), 0)
			}
		}()
	}
	for range 20 {
		seen := map[string]int{}
		for name := range cache.Keys("stay:") {
			seen[name]++
		}
		for number := range stay {
			if count := seen["stay:"+key(number)]; count != 1 {
				t.Fatalf("%s was shown %d times", key(number), count)
			}
		}
	}
	close(stop)
	writers.Wait()
	for range cache.All() {
		break
	}
}

// If the clock is ahead at Save, or shows an earlier time at Load, the remaining time to live of an
// item does not change.
func TestTheTimeThatItemsHaveLeftSurvivesAClockThatIsSet(t *testing.T) {
	const year = 365 * 24 * 3_600_000
	for _, step := range []int64{-year, -1, 0, 10_000, 59_000} {
		clock := newClock()
		cache := openTest(t, clock.config(Config{}))
		if _, err := cache.Set("k", []byte("v"), 0, 60_000); err != nil {
			t.Fatal(err)
		}
		var saved bytes.Buffer
		if err := cache.Save(&saved); err != nil {
			t.Fatal(err)
		}
		config := clock.config(Config{})
		config.Wall = func() int64 { return clock.read() + 5_000_000 + step }
		loaded := openTest(t, config)
		if done, err := loaded.Load(&saved); done.Stored != 1 || err != nil {
			t.Fatalf("step of %d ms: %d items, %v", step, done.Stored, err)
		}
		item, _ := loaded.Look("k")
		if left, want := item.Deadline-clock.read(), 60_000-max(step, 0); left != want {
			t.Errorf("the clock is set by %d ms: the item has %d ms left, want %d", step, left, want)
		}
	}
}

func TestACacheThatAnOlderReleaseSavedIsLoaded(t *testing.T) {
	saved := saveSmall(t)
	old := append([]byte(saveMagicOld), saved[len(saveHead(0)):]...)
	loaded := openTest(t, Config{MemoryBytes: 1 << 20})
	if done, err := loaded.Load(bytes.NewReader(old)); done.Stored != 23 || err != nil {
		t.Errorf("%d items, %v", done.Stored, err)
	}
}
