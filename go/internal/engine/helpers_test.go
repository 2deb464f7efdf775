package engine

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand"
	"strconv"
	"sync/atomic"
	"testing"
)

// clock is a clock that tests move.
type clock struct{ now atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.now.Store(1_000_000)
	return c
}

func (c *clock) read() int64        { return c.now.Load() }
func (c *clock) advance(ms int64)   { c.now.Add(ms) }
func key(number int) string         { return fmt.Sprintf("key:%012d", number) }
func value(number, size int) []byte { return fill(make([]byte, size), number) }
func (c *clock) config(c2 Config) Config {
	c2.Now = c.read
	c2.Wall = func() int64 { return c.read() + 5_000_000 }
	return c2
}

// fill fills a value with bytes that depend on a number and on their position.
func fill(value []byte, number int) []byte {
	state := uint64(number)*0x9E3779B97F4A7C15 + 1
	for at := range value {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		value[at] = byte(state)
	}
	return value
}

func openTest(t testing.TB, config Config) *Engine {
	t.Helper()
	if config.MemoryBytes == 0 {
		config.MemoryBytes = 16 << 20
	}
	e, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// openTiny opens a cache of one shard with small segments.
func openTiny(t testing.TB, config Config, segments, segmentBytes int) *Engine {
	t.Helper()
	e, err := open(config, geometry{1, segments, segmentBytes}, maphash.MakeSeed())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// stored is an item of the model.
type stored struct {
	value    []byte
	flags    uint32
	deadline int64
	token    uint64
}

// model is a map that behaves like a cache without evictions.
type model struct {
	items map[string]stored
	now   func() int64
}

func (m *model) get(key string) (stored, bool) {
	item, ok := m.items[key]
	if ok && item.deadline != 0 && item.deadline <= m.now() {
		delete(m.items, key)
		return stored{}, false
	}
	return item, ok
}

func (m *model) deadline(ttl int64) int64 {
	if ttl == 0 {
		return 0
	}
	return m.now() + ttl
}

// pair runs each command on a cache and on the model, and compares.
type pair struct {
	t     testing.TB
	cache *Engine
	model model
	// evicts is true if the cache may lose items.
	evicts bool
}

func newPair(t testing.TB, cache *Engine, now func() int64) *pair {
	return &pair{t: t, cache: cache, model: model{map[string]stored{}, now}}
}

func (p *pair) check(what, key string, got, want error) bool {
	p.t.Helper()
	if !errors.Is(got, want) {
		p.t.Fatalf("%s(%q) = %v, want %v", what, key, got, want)
	}
	return want == nil
}

func (p *pair) store(mode int, key string, value []byte, flags uint32, ttl int64, token uint64) {
	p.t.Helper()
	old, exists := p.model.get(key)
	var want error
	var got error
	var stamp uint64
	switch mode {
	case 0:
		stamp, got = p.cache.Set(key, value, flags, ttl)
	case 1:
		stamp, got = p.cache.Add(key, value, flags, ttl)
		if exists {
			want = ErrNotStored
		}
	case 2:
		stamp, got = p.cache.Replace(key, value, flags, ttl)
		if !exists {
			want = ErrNotStored
		}
	case 3:
		stamp, got = p.cache.CompareAndSwap(key, value, flags, ttl, token)
		switch {
		case !exists:
			want = ErrNotFound
		case old.token != token:
			want = ErrExists
		}
	}
	if p.check(strconv.Itoa(mode), key, got, want) {
		p.model.items[key] = stored{append([]byte{}, value...), flags, p.model.deadline(ttl), stamp}
	}
}

func (p *pair) extend(key string, more []byte, inFront bool) {
	p.t.Helper()
	old, exists := p.model.get(key)
	var want error
	if !exists {
		want = ErrNotStored
	}
	joined := append(append([]byte{}, old.value...), more...)
	extend := p.cache.Append
	if inFront {
		joined = append(append([]byte{}, more...), old.value...)
		extend = p.cache.Prepend
	}
	token, err := extend(key, more, 0)
	if p.check("extend", key, err, want) {
		old.value, old.token = joined, token
		p.model.items[key] = old
	}
}

func (p *pair) add(key string, delta uint64, subtract bool) {
	p.t.Helper()
	old, exists := p.model.get(key)
	number, parseErr := strconv.ParseUint(string(bytes.TrimRight(old.value, " ")), 10, 64)
	add := p.cache.Incr
	if subtract {
		add = p.cache.Decr
	}
	got, token, err := add(key, delta)
	switch {
	case !exists:
		p.check("add", key, err, ErrNotFound)
		return
	case parseErr != nil || len(old.value) > 20:
		p.check("add", key, err, ErrNotNumber)
		return
	}
	p.check("add", key, err, nil)
	switch {
	case !subtract:
		number += delta
	case delta > number:
		number = 0
	default:
		number -= delta
	}
	if got != number {
		p.t.Fatalf("add(%q) = %d, want %d", key, got, number)
	}
	text := strconv.AppendUint(nil, number, 10)
	for len(text) < len(old.value) {
		text = append(text, ' ')
	}
	old.value, old.token = text, token
	p.model.items[key] = old
}

func (p *pair) delete(key string, token uint64) {
	p.t.Helper()
	old, exists := p.model.get(key)
	var want error
	switch {
	case !exists:
		want = ErrNotFound
	case token != 0 && token != old.token:
		want = ErrExists
	}
	if p.check("delete", key, p.cache.Delete(key, token), want) {
		delete(p.model.items, key)
	}
}

func (p *pair) touch(key string, ttl int64) {
	p.t.Helper()
	old, exists := p.model.get(key)
	var want error
	if !exists {
		want = ErrNotFound
	}
	if p.check("touch", key, p.cache.Touch(key, ttl), want) {
		old.deadline = p.model.deadline(ttl)
		p.model.items[key] = old
	}
}

func (p *pair) compare(what, key string, got []byte, item Item, found bool) {
	p.t.Helper()
	want, exists := p.model.get(key)
	if found != exists {
		if exists && p.evicts {
			delete(p.model.items, key)
			return
		}
		p.t.Fatalf("%s(%q) found %v, want %v", what, key, found, exists)
	}
	if !found {
		return
	}
	if !bytes.Equal(got, want.value) {
		p.t.Fatalf("%s(%q) = %d bytes, want %d others", what, key, len(got), len(want.value))
	}
	if item.Flags != want.flags || item.Deadline != want.deadline || item.Token != want.token {
		p.t.Fatalf("%s(%q) = %+v, want %+v", what, key, item, want)
	}
}

func (p *pair) read(how int, key string, ttl int64) {
	p.t.Helper()
	switch how {
	case 0:
		got, item, found := p.cache.GetItem(nil, key)
		p.compare("GetItem", key, got, item, found)
	case 1:
		got, found := p.cache.GetInto([]byte("x"), key)
		want, _ := p.model.get(key)
		p.compare("GetInto", key, got[1:], Item{Flags: want.flags, Token: want.token, Deadline: want.deadline}, found)
	case 2:
		var got []byte
		var item Item
		found := p.cache.ViewItem(key, func(v []byte, i Item) { got, item = append(got, v...), i })
		p.compare("View", key, got, item, found)
	case 3:
		got, item, found := p.cache.Peek(nil, key)
		p.compare("Peek", key, got, item, found)
	case 4:
		got, item, found := p.cache.GetAndTouch(nil, key, ttl)
		p.compare("GetAndTouch", key, got, item, found)
		if old, exists := p.model.get(key); exists {
			old.deadline = p.model.deadline(ttl)
			p.model.items[key] = old
		}
	}
}

// step runs one random command.
func (p *pair) step(random *rand.Rand, clock *clock, keys, sizeMax int) {
	p.t.Helper()
	k := key(random.Intn(keys))
	ttl := int64(0)
	if random.Intn(3) == 0 {
		ttl = int64(1 + random.Intn(5000))
	}
	token := uint64(random.Intn(100))
	if old, ok := p.model.get(k); ok && random.Intn(4) > 0 {
		token = old.token
	}
	size := random.Intn(sizeMax)
	if random.Intn(4) > 0 {
		size = random.Intn(min(200, sizeMax))
	}
	flags := uint32(random.Intn(2) * random.Intn(1<<30))
	switch command := random.Intn(20); {
	case command < 8:
		p.read(random.Intn(5), k, ttl)
	case command < 13:
		v := value(random.Int(), size)
		if random.Intn(5) == 0 {
			v = []byte(strconv.Itoa(random.Intn(1000)))
		}
		p.store(random.Intn(4), k, v, flags, ttl, token)
	case command < 15:
		p.add(k, uint64(random.Intn(500)), random.Intn(2) == 0)
	case command < 17:
		if old, ok := p.model.get(k); !ok || len(old.value)+size < sizeMax {
			p.extend(k, value(random.Int(), size), random.Intn(2) == 0)
		}
	case command < 18:
		p.delete(k, token*uint64(random.Intn(2)))
	case command < 19:
		p.touch(k, ttl)
	default:
		clock.advance(int64(random.Intn(300)))
	}
}
