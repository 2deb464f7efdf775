package larder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"larder.example/larder/internal/check"
)

// arguments are the values that callEachMethod passes for parameters of their types.
type arguments struct {
	key  string
	ttl  time.Duration
	item Item
	path string
}

func (a *arguments) of(t testing.TB, parameter reflect.Type) reflect.Value {
	if parameter == reflect.TypeFor[context.Context]() {
		return reflect.ValueOf(t.Context())
	}
	for _, value := range []any{
		a.key, a.ttl, a.item, Loader(loaderOf("v", a.ttl)), []string{a.key, a.key, ""},
		func([]byte) {}, func(int, []byte) {},
		func(value []byte, item *Item, _ bool) ([]byte, Decision) { item.TTL = a.ttl; return value, StoreItem },
	} {
		if reflect.TypeOf(value) == parameter {
			return reflect.ValueOf(value)
		}
	}
	switch parameter {
	case reflect.TypeFor[io.Reader]():
		return reflect.ValueOf(strings.NewReader("not a cache"))
	case reflect.TypeFor[io.Writer]():
		return reflect.ValueOf(io.Discard)
	}
	return reflect.Zero(parameter)
}

// callEachMethod calls each method except Close. It calls the methods that use files with a path.
// It returns their errors; a panic ends the test.
func callEachMethod(t *testing.T, cache any, with arguments) map[string]error {
	t.Helper()
	found := make(map[string]error)
	methods := reflect.ValueOf(cache)
	for at := range methods.NumMethod() {
		name, method := methods.Type().Method(at).Name, methods.Method(at)
		if name == "Close" {
			continue
		}
		in := make([]reflect.Value, method.Type().NumIn())
		for number := range in {
			in[number] = with.of(t, method.Type().In(number))
			if strings.HasSuffix(name, "File") {
				in[number] = reflect.ValueOf(with.path)
			}
		}
		out := method.Call(in)
		if len(out) > 0 {
			found[name], _ = out[len(out)-1].Interface().(error)
		}
	}
	return found
}

func TestZeroCachesAreClosed(t *testing.T) {
	cache := new(Cache)
	for range 2 {
		for name, err := range callEachMethod(t, cache, arguments{key: "k", path: filepath.Join(t.TempDir(), "none")}) {
			if err != nil && !errors.Is(err, ErrClosed) && name != "LoadFile" && name != "Load" {
				t.Errorf("%s: error %v, want %v", name, err, ErrClosed)
			}
		}
		check.NoError(t, cache.Close())
	}
	check.ErrorIs(t, "Set", cache.Set("k", nil, 0), ErrClosed)
	_, err := cache.GetOrLoad(t.Context(), "k", loaderOf("v", 0))
	check.ErrorIs(t, "GetOrLoad", err, ErrClosed)
	for key := range cache.All("") {
		t.Errorf("All of the zero Cache has %q", key)
	}
	_, err = cache.Store().Get(t.Context(), "k")
	check.ErrorIs(t, "Get of the store", err, ErrClosed)
}

func TestExtremeArguments(t *testing.T) {
	check.GoroutineLeaks(t)
	for _, options := range []Options{{}, {CAS: true, TTL: Forever - 1, StaleFor: Forever - 1, RefreshBefore: Forever}} {
		// The clock stands still, so that items with the shortest time to live exist until the end.
		options.Clock = newClock().Now
		cache := openCache(t, options)
		for _, key := range []string{"", "k", strings.Repeat("k", 250), strings.Repeat("k", 251), strings.Repeat("k", 1<<20)} {
			for _, ttl := range []time.Duration{math.MinInt64, -1, 0, 1, Forever - 1, Forever} {
				for range 2 {
					callEachMethod(t, cache, arguments{
						key: key, ttl: ttl, item: Item{TTL: ttl, CAS: math.MaxUint64},
						path: filepath.Join(t.TempDir(), "cache"),
					})
					_ = cache.Set(key, nil, ttl)
					item, _, ok := cache.Peek(key)
					if ok != (isKey(key) && ttl >= 0) || item.TTL < 0 {
						t.Errorf("Set of %d bytes for %d: found %v, %d to live", len(key), ttl, ok, item.TTL)
					}
				}
			}
		}
	}
}

func TestExtremeDurationsOfOptions(t *testing.T) {
	for _, d := range []time.Duration{1, Forever - 1, Forever} {
		for _, options := range []Options{
			{TTL: d}, {Sweep: d}, {StaleFor: d}, {RefreshBefore: d}, {LoadTimeout: max(d, time.Minute)},
			{TTL: d, StaleFor: d, RefreshBefore: d},
		} {
			clock := newClock()
			options.Clock = clock.Now
			cache := openCache(t, options)
			value := must[[]byte](t)(cache.GetOrLoad(t.Context(), "k", loaderOf("v", 0)))
			check.Equal(t, fmt.Sprintf("%+v: loaded", options), string(value), "v")
			wantValue(t, cache, "k", "v")
			check.NoError(t, cache.Maintain())
			check.NoError(t, cache.Close())
		}
	}
}

func TestCloseInsideOfIterations(t *testing.T) {
	cache := openCache(t, Options{})
	for at := range 10_000 {
		set(t, cache, fmt.Sprint(at), "v")
	}
	seen := 0
	for range cache.Keys("") {
		if seen++; seen == 3 {
			break
		}
	}
	for key, value := range cache.All("") {
		if seen++; seen == 10 {
			check.NoError(t, cache.Close())
		}
		check.Equal(t, "value of "+key, string(value), "v")
	}
	check.Equal(t, "keys until Close", seen, 10)
}

func TestCloseInsideOfOnRemoveEndsRemovePrefix(t *testing.T) {
	var cache *Cache
	cache = openCache(t, Options{OnRemove: func(string, []byte, Reason) { _ = cache.Close() }})
	for at := range 100 {
		set(t, cache, fmt.Sprint(at), "v")
	}
	removed, err := cache.RemovePrefix("")
	check.Equal(t, "RemovePrefix", removed, 1)
	check.ErrorIs(t, "RemovePrefix", err, ErrClosed)
}
