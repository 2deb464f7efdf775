package larder

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// step is a step of conformance/api/cases.json, whose README documents the fields.
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
}

// outcome holds the results of a step: an error, or whether its condition held.
type outcome struct {
	done   bool
	err    error
	number uint64
}

// name returns the name that the scenes use for an outcome.
func (o *outcome) name(op string) string {
	for name, target := range map[string]error{
		"missing": ErrNotFound, "changed": ErrChanged, "key": ErrKey, "too_large": ErrTooLarge,
		"not_a_number": ErrNotANumber, "no_tokens": ErrNoTokens,
	} {
		if errors.Is(o.err, target) {
			return name
		}
	}
	switch {
	case o.err != nil:
		return o.err.Error()
	case o.done:
		return "ok"
	case op == "add":
		return "exists"
	}
	return "missing"
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

func TestScenesOfAllInterfaces(t *testing.T) {
	text, err := os.ReadFile("../../conformance/api/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var scenes []struct {
		Name  string `json:"name"`
		CAS   bool   `json:"cas"`
		Steps []step `json:"steps"`
	}
	if err := json.Unmarshal(text, &scenes); err != nil {
		t.Fatal(err)
	}
	// A wrong file would play no scenes and pass.
	if len(scenes) < 12 {
		t.Fatalf("%d scenes, want at least 12", len(scenes))
	}
	for _, scene := range scenes {
		t.Run(scene.Name, func(t *testing.T) {
			cache := openCache(t, Options{CAS: scene.CAS})
			for _, step := range scene.Steps {
				step.play(t, cache)
			}
		})
	}
}

func (s *step) play(t *testing.T, cache *Cache) {
	t.Helper()
	var got outcome
	switch s.Op {
	case "get":
		got = s.get(t, cache)
	case "get_many":
		got = s.getMany(t, cache)
	case "swap":
		got = s.swap(cache)
	case "keys":
		got.done = slices.Equal(slices.Sorted(cache.Keys(s.Prefix)), s.Keys)
	case "length":
		got = outcome{done: true, number: uint64(cache.Len())}
	default:
		got = s.change(t, cache)
	}
	if name := got.name(s.Op); name != s.Want {
		t.Errorf("%+v: outcome %q, want %q", s, name, s.Want)
	}
	if s.Number != nil && got.number != *s.Number {
		t.Errorf("%+v: number %d, want %d", s, got.number, *s.Number)
	}
}

func (s *step) get(t *testing.T, cache *Cache) outcome {
	t.Helper()
	value, item, err := cache.GetInto(nil, s.key())
	if err != nil {
		return outcome{err: err}
	}
	if string(value) != string(s.value()) {
		t.Errorf("%+v: value %.40q, want %.40q", s, value, s.value())
	}
	// Two seconds: the test may take one, and the remaining time is in whole seconds.
	if s.TTL != nil {
		wantTTL(t, item, s.ttl()-2*time.Second, s.ttl())
	}
	return outcome{done: true}
}

func (s *step) getMany(t *testing.T, cache *Cache) outcome {
	t.Helper()
	values, err := cache.GetMany(s.Keys...)
	if len(values) != len(s.Values) {
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
	return outcome{done: true, err: err}
}

func (s *step) swap(cache *Cache) outcome {
	item, _, _ := cache.Peek(s.key())
	if s.Token == "other" {
		item.CAS += 12345
	}
	_, err := cache.CompareAndSwap(s.key(), s.value(), s.ttl(), item.CAS)
	return outcome{done: true, err: err}
}

// change plays a step that changes one key or all keys.
func (s *step) change(t *testing.T, cache *Cache) (got outcome) {
	t.Helper()
	got.done = true
	switch s.Op {
	case "set":
		got.err = cache.Set(s.key(), s.value(), s.ttl())
	case "add":
		got.done, got.err = cache.Add(s.key(), s.value(), s.ttl())
	case "replace":
		got.done, got.err = cache.Replace(s.key(), s.value(), s.ttl())
	case "append":
		got.done, got.err = cache.Append(s.key(), s.value())
	case "prepend":
		got.done, got.err = cache.Prepend(s.key(), s.value())
	case "delete":
		got.done, got.err = cache.Delete(s.key())
	case "touch":
		got.done, got.err = cache.Touch(s.key(), s.ttl())
	case "increment":
		got.number, got.err = cache.Incr(s.key(), s.Delta)
	case "decrement":
		got.number, got.err = cache.Decr(s.key(), s.Delta)
	case "remove_prefix":
		var removed int
		removed, got.err = cache.RemovePrefix(s.Prefix)
		got.number = uint64(removed)
	case "clear":
		got.err = cache.Clear()
	default:
		t.Fatalf("unknown op %q", s.Op)
	}
	return got
}
