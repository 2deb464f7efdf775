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

// step is a step of conformance/api/cases.json; its README says what the fields mean.
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

func repeat(text string, times *int) string {
	if times == nil {
		return text
	}
	return strings.Repeat(text, *times)
}

// named is the name that an error, or what is not done without one, has in the scenes.
func outcomeName(done bool, otherwise string, err error) string {
	for name, is := range map[string]error{
		"missing": ErrNotFound, "changed": ErrChanged, "key": ErrKey, "too_large": ErrTooLarge,
		"not_a_number": ErrNotANumber, "no_tokens": ErrNoTokens,
	} {
		if errors.Is(err, is) {
			return name
		}
	}
	switch {
	case err != nil:
		return err.Error()
	case done:
		return "ok"
	}
	return otherwise
}

// The package does what every front door does.
func TestScenesOfEveryFrontDoor(t *testing.T) {
	text, err := os.ReadFile("../../conformance/api/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var scenes []struct {
		Name  string `json:"name"`
		CAS   bool   `json:"cas"`
		Steps []step `json:"steps"`
	}
	if err := json.Unmarshal(text, &scenes); err != nil || len(scenes) < 12 {
		t.Fatal(len(scenes), err)
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
	key, value := repeat(s.Key, s.Times), []byte(repeat(s.Value, s.ValueTimes))
	var ttl time.Duration
	if s.TTL != nil {
		ttl = time.Duration(*s.TTL) * time.Second
	}
	var done bool
	var err error
	var number uint64
	otherwise := "missing"
	switch s.Op {
	case "get":
		var found []byte
		var item Item
		found, item, err = cache.GetInto(nil, key)
		done = err == nil
		if done && string(found) != string(value) {
			t.Errorf("%+v: the value is %.40q", s, found)
		}
		if done && s.TTL != nil && (item.TTL > ttl || item.TTL < ttl-2*time.Second) {
			t.Errorf("%+v: it lives for %v", s, item.TTL)
		}
	case "set":
		done, err = true, cache.Set(key, value, ttl)
	case "add":
		otherwise = "exists"
		done, err = cache.Add(key, value, ttl)
	case "replace":
		done, err = cache.Replace(key, value, ttl)
	case "append":
		done, err = cache.Append(key, value)
	case "prepend":
		done, err = cache.Prepend(key, value)
	case "swap":
		item, _, _ := cache.Peek(key)
		if s.Token == "other" {
			item.CAS += 12345
		}
		_, err = cache.CompareAndSwap(key, value, ttl, item.CAS)
		done = true
	case "delete":
		done, err = cache.Delete(key)
	case "touch":
		done, err = cache.Touch(key, ttl)
	case "increment":
		number, err = cache.Incr(key, s.Delta)
		done = true
	case "decrement":
		number, err = cache.Decr(key, s.Delta)
		done = true
	case "get_many":
		var values [][]byte
		values, err = cache.GetMany(s.Keys...)
		done = len(values) == len(s.Values)
		for at, expected := range s.Values {
			if (values[at] == nil) != (expected == nil) {
				t.Errorf("%+v: value %d is %.40q", s, at, values[at])
			} else if expected != nil && string(values[at]) != *expected {
				t.Errorf("%+v: value %d is %.40q", s, at, values[at])
			}
		}
	case "keys":
		keys := slices.Sorted(cache.Keys(s.Prefix))
		done = slices.Equal(keys, s.Keys)
	case "remove_prefix":
		var removed int
		removed, err = cache.RemovePrefix(s.Prefix)
		number, done = uint64(removed), true
	case "clear":
		done, err = true, cache.Clear()
	case "length":
		number, done = uint64(cache.Len()), true
	default:
		t.Fatalf("there is no op %q", s.Op)
	}
	if outcome := outcomeName(done, otherwise, err); outcome != s.Want {
		t.Errorf("%+v: the outcome is %s", s, outcome)
	}
	if s.Number != nil && number != *s.Number {
		t.Errorf("%+v: the number is %d", s, number)
	}
}
