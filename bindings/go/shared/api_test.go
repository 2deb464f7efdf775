package shared

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"larder/internal/check"
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
	Count      int       `json:"count"`
	Why        string    `json:"why"`
	tierSettings
}

// tierSettings are the fields of scenes and steps that name a disk tier.
type tierSettings struct {
	Tier      string `json:"tier"`
	TierBytes int64  `json:"tier_bytes"`
}

// apply returns options with this disk tier in a folder; the same options without one.
func (s *tierSettings) apply(options Options, folder string) Options {
	if s.Tier == "" {
		return options
	}
	tier := &Tier{Path: filepath.Join(folder, "tier"), Size: s.TierBytes, DirtyMemory: 64 << 20}
	if tier.Size == 0 {
		tier.Size = 64 << 20
	}
	if s.Tier == "cache" {
		tier.Mode = TierCache
	}
	options.Tier = tier
	return options
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
		"not_a_number": ErrNotANumber, "no_tokens": ErrNoTokens, "disk_full": ErrDiskFull,
		"unsupported": ErrUnsupported, "not_opened": ErrNotOpened,
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
	text, err := os.ReadFile("../../../conformance/api/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var scenes []struct {
		Name  string `json:"name"`
		CAS   bool   `json:"cas"`
		Steps []step `json:"steps"`
		tierSettings
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
			folder := t.TempDir()
			options := scene.apply(Options{CAS: scene.CAS}, folder)
			cache := openCache(t, options)
			for _, step := range scene.Steps {
				switch step.Op {
				case "reopen":
					check.NoError(t, cache.Close())
					cache = step.open(t, step.apply(options, folder))
				case "open_another":
					step.open(t, step.apply(options, folder))
				default:
					step.play(t, cache)
				}
			}
		})
	}
}

// open opens a cache, or checks that it is refused: then it returns a closed one.
func (s *step) open(t *testing.T, options Options) *Cache {
	t.Helper()
	options.Memory = 8 << 20
	cache, err := Open("", options)
	got := outcome{done: true, err: err}
	if name := got.name(s.Op); name != s.Want {
		t.Fatalf("%+v: outcome %q, want %q", s, name, s.Want)
	}
	if err != nil && !strings.Contains(err.Error(), s.Why) {
		t.Errorf("%+v: the reason is %v", s, err)
	}
	if err != nil {
		cache = openCache(t, Options{})
		_ = cache.Close()
		return cache
	}
	t.Cleanup(func() { _ = cache.Close() })
	return cache
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
	case "fill":
		got = s.numbered(func(key string, value []byte) error { return cache.Set(key, value, 0) })
	case "check":
		got = s.numbered(func(key string, want []byte) error {
			value, _, err := cache.GetInto(nil, key)
			if err == nil && !bytes.Equal(value, want) {
				err = errors.New("another value")
			}
			return err
		})
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

// numbered calls act for as many keys as the step counts, until it fails.
func (s *step) numbered(act func(key string, value []byte) error) outcome {
	for number := range s.Count {
		key := s.Key + strconv.Itoa(number)
		if err := act(key, append([]byte(key), s.value()...)); err != nil {
			return outcome{err: err}
		}
	}
	return outcome{done: true}
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
