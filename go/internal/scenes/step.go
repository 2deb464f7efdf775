package scenes

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// step is a step of a scene.
type step struct {
	Op         string    `json:"op"`
	Key        string    `json:"key"`
	Times      *int      `json:"times"`
	Value      string    `json:"value"`
	ValueTimes *int      `json:"value_times"`
	TTL        *int64    `json:"ttl"`
	Token      string    `json:"token"`
	Delta      uint64    `json:"delta"`
	Prefix     string    `json:"prefix"`
	Want       string    `json:"want"`
	Number     *uint64   `json:"number"`
	Keys       []string  `json:"keys"`
	Values     []*string `json:"values"`
	Count      int       `json:"count"`
	Why        string    `json:"why"`
	Settings
}

func repeat(text string, times *int) string {
	if times == nil {
		return text
	}
	return strings.Repeat(text, *times)
}

func (s *step) key() string   { return repeat(s.Key, s.Times) }
func (s *step) value() []byte { return []byte(repeat(s.Value, s.ValueTimes)) }

func (s *step) ttl() time.Duration {
	if s.TTL == nil {
		return 0
	}
	return time.Duration(*s.TTL) * time.Second
}

// step plays a step that uses the cache.
func (p *Player) step(t *testing.T, s *step, cache Cache) {
	t.Helper()
	got, isPlayed := s.read(t, cache)
	if !isPlayed {
		got, isPlayed = s.walk(cache)
	}
	if !isPlayed {
		got, isPlayed = s.change(cache)
	}
	if !isPlayed {
		t.Fatalf("unknown op %q", s.Op)
	}
	if name := p.name(got, s.Op); name != s.Want {
		t.Errorf("%+v: outcome %q, want %q", s, name, s.Want)
	}
	if s.Number != nil && got.number != *s.Number {
		t.Errorf("%+v: number %d, want %d", s, got.number, *s.Number)
	}
}

// read plays a step that reads. It returns false for other steps.
func (s *step) read(t *testing.T, cache Cache) (got outcome, isPlayed bool) {
	t.Helper()
	switch s.Op {
	case "get":
		return s.get(t, cache), true
	case "get_many":
		return s.getMany(t, cache), true
	case "check":
		return s.numbered(func(key string, want []byte) error {
			value, _, err := cache.Get(key)
			if err == nil && !bytes.Equal(value, want) {
				err = errors.New("another value")
			}
			return err
		}), true
	}
	return got, false
}

// walk plays a step that lists items, unless the cache cannot list them. It returns false for other
// steps.
func (s *step) walk(cache Cache) (got outcome, isPlayed bool) {
	walker, isWalker := cache.(Walker)
	if !isWalker {
		// The other steps of the scene do not depend on this step.
		walker = absent{s, cache}
	}
	got.done = true
	switch s.Op {
	case "keys":
		got.done = slices.Equal(walker.Keys(s.Prefix), s.Keys)
	case "length":
		got.number = uint64(walker.Len())
	case "remove_prefix":
		var removed int
		removed, got.err = walker.RemovePrefix(s.Prefix)
		got.number = uint64(removed)
	default:
		return got, false
	}
	return got, true
}

// absent takes the place of the walker for a cache that cannot list items. It returns the list that
// the step expects, so that the step passes.
type absent struct {
	step  *step
	cache Cache
}

func (a absent) Keys(string) []string { return a.step.Keys }

func (a absent) Len() int {
	if a.step.Number == nil {
		return 0
	}
	return int(*a.step.Number)
}

func (a absent) RemovePrefix(string) (int, error) { return a.Len(), nil }

// numbered calls act for each of Count keys and values that differ by a number. It stops at the
// first error.
func (s *step) numbered(act func(key string, value []byte) error) outcome {
	for number := range s.Count {
		key := s.Key + strconv.Itoa(number)
		if err := act(key, append([]byte(key), s.value()...)); err != nil {
			return outcome{err: err}
		}
	}
	return outcome{done: true}
}

func (s *step) get(t *testing.T, cache Cache) outcome {
	t.Helper()
	value, ttl, err := cache.Get(s.key())
	if err != nil {
		return outcome{err: err}
	}
	if string(value) != string(s.value()) {
		t.Errorf("%+v: value %.40q, want %.40q", s, value, s.value())
	}
	// Two seconds: the test may take one, and the remaining time may be in whole seconds.
	if s.TTL != nil && (ttl < s.ttl()-2*time.Second || ttl > s.ttl()) {
		t.Errorf("%+v: TTL %v, want %v or up to two seconds less", s, ttl, s.ttl())
	}
	return outcome{done: true}
}

func (s *step) getMany(t *testing.T, cache Cache) outcome {
	t.Helper()
	values, err := cache.GetMany(s.Keys)
	if err != nil || len(values) != len(s.Values) {
		return outcome{err: err}
	}
	for at, want := range s.Values {
		switch got := values[at]; {
		case (got == nil) != (want == nil):
			t.Errorf("%+v: value %d found: %v, want %v", s, at, got != nil, want != nil)
		case want != nil && string(got) != *want:
			t.Errorf("%+v: value %d = %.40q, want %.40q", s, at, got, *want)
		}
	}
	return outcome{done: true}
}

// change plays a step that changes one key or all keys. It returns false for other steps.
func (s *step) change(cache Cache) (got outcome, isPlayed bool) {
	got.done = true
	switch s.Op {
	case "set":
		got.err = cache.Set(s.key(), s.value(), s.ttl())
	case "fill":
		got = s.numbered(func(key string, value []byte) error { return cache.Set(key, value, 0) })
	case "add":
		got.done, got.err = cache.Add(s.key(), s.value(), s.ttl())
	case "replace":
		got.done, got.err = cache.Replace(s.key(), s.value(), s.ttl())
	case "append":
		got.done, got.err = cache.Append(s.key(), s.value())
	case "prepend":
		got.done, got.err = cache.Prepend(s.key(), s.value())
	case "swap":
		token := cache.Token(s.key())
		if s.Token == "other" {
			token += 12345
		}
		_, got.err = cache.CompareAndSwap(s.key(), s.value(), s.ttl(), token)
	case "delete":
		got.done, got.err = cache.Delete(s.key())
	case "touch":
		got.done, got.err = cache.Touch(s.key(), s.ttl())
	case "increment":
		got.number, got.err = cache.Incr(s.key(), s.Delta)
	case "decrement":
		got.number, got.err = cache.Decr(s.key(), s.Delta)
	case "clear":
		got.err = cache.Clear()
	default:
		return got, false
	}
	return got, true
}
