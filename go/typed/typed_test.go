package typed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"larder.example/larder"
	"larder.example/larder/internal/check"
	"larder.example/larder/internal/testserver"
	"larder.example/larder/remote"
)

// user is a value of the tests.
type user struct {
	Name string
	Tags []string
}

func openCache(t *testing.T) *larder.Cache {
	t.Helper()
	cache, err := larder.Open(larder.Options{Memory: 4 << 20})
	check.NoError(t, err)
	t.Cleanup(func() { _ = cache.Close() })
	return cache
}

// mapStore is a store from outside of this module. It has no method GetOrLoad.
type mapStore struct{ items sync.Map }

func (s *mapStore) Get(_ context.Context, key string) ([]byte, error) {
	value, ok := s.items.Load(key)
	if !ok {
		return nil, larder.ErrNotFound
	}
	return value.([]byte), nil
}

func (s *mapStore) Set(_ context.Context, key string, value []byte, _ time.Duration) error {
	s.items.Store(key, value)
	return nil
}

func (s *mapStore) Delete(_ context.Context, key string) error {
	s.items.Delete(key)
	return nil
}

// stores are the kinds of stores.
func stores(t *testing.T) map[string]func(t *testing.T) larder.Store {
	return map[string]func(t *testing.T) larder.Store{
		"local":   func(t *testing.T) larder.Store { return openCache(t).Store() },
		"foreign": func(t *testing.T) larder.Store { return new(mapStore) },
		"remote": func(t *testing.T) larder.Store {
			remote, err := remote.Connect(t.Context(), testserver.Start(t, "larderd"))
			check.NoError(t, err)
			t.Cleanup(func() { _ = remote.Close() })
			return remote.Store()
		},
	}
}

func TestValuesComeBackFromEveryStore(t *testing.T) {
	for name, open := range stores(t) {
		t.Run(name, func(t *testing.T) {
			ctx, users := t.Context(), New(open(t), Options[int, user]{Prefix: "user:"})
			_, err := users.Get(ctx, 7)
			check.ErrorIs(t, "Get of an absent key", err, larder.ErrNotFound)
			check.NoError(t, users.Set(ctx, 7, user{"ada", []string{"a", "b"}}))
			got, err := users.Get(ctx, 7)
			check.NoError(t, err)
			check.Equal(t, "Get", fmt.Sprint(got), "{ada [a b]}")
			check.NoError(t, users.Delete(ctx, 7))
			check.NoError(t, users.Delete(ctx, 7))
			_, err = users.Get(ctx, 7)
			check.ErrorIs(t, "Get of a deleted key", err, larder.ErrNotFound)
		})
	}
}

func TestLoadsAreShared(t *testing.T) {
	for name, open := range stores(t) {
		t.Run(name, func(t *testing.T) {
			check.GoroutineLeaks(t)
			ctx, users := t.Context(), New(open(t), Options[int, user]{})
			var loads atomic.Int32
			load := func(_ context.Context, key int) (user, time.Duration, error) {
				loads.Add(1)
				time.Sleep(50 * time.Millisecond)
				return user{Name: fmt.Sprint("user ", key), Tags: []string{"tag"}}, time.Minute, nil
			}
			var all sync.WaitGroup
			for range 20 {
				all.Add(1)
				go func() {
					defer all.Done()
					got, err := users.GetOrLoad(ctx, 7, load)
					if err != nil || got.Name != "user 7" || got.Tags[0] != "tag" {
						t.Errorf("GetOrLoad = %+v, %v, want user 7 with a tag", got, err)
						return
					}
					// Every caller has its own value, so this affects no other.
					got.Tags[0] = "changed"
				}()
			}
			all.Wait()
			check.Equal(t, "loads", loads.Load(), 1)
			got, err := users.Get(ctx, 7)
			check.NoError(t, err)
			check.Equal(t, "Get", got.Name, "user 7")
			broken := errors.New("broken")
			_, err = users.GetOrLoad(ctx, 8, func(context.Context, int) (user, time.Duration, error) {
				return user{}, 0, broken
			})
			check.ErrorIs(t, "GetOrLoad whose loader fails", err, broken)
		})
	}
}

func TestChangesDuringALoadWin(t *testing.T) {
	for name, open := range stores(t) {
		t.Run(name, func(t *testing.T) {
			ctx, names := t.Context(), New(open(t), Options[string, string]{Codec: Bytes[string]()})
			for what, change := range map[string]func() error{
				"set":    func() error { return names.Set(ctx, "set", "new") },
				"delete": func() error { return names.Delete(ctx, "delete") },
			} {
				got, err := names.GetOrLoad(ctx, what, func(context.Context, string) (string, time.Duration, error) {
					return "old", 0, change()
				})
				check.NoError(t, err)
				check.Equal(t, what+": GetOrLoad", got, "old")
				got, _ = names.Get(ctx, what)
				check.Equal(t, what+": Get", got, map[string]string{"set": "new", "delete": ""}[what])
			}
		})
	}
}

func TestCodecs(t *testing.T) {
	ctx, store := t.Context(), openCache(t).Store()
	now := time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)
	times := New(store, Options[string, time.Time]{Prefix: "t:", Codec: Binary[time.Time]()})
	check.NoError(t, times.Set(ctx, "k", now))
	got, err := times.Get(ctx, "k")
	check.NoError(t, err)
	check.Equal(t, "time", got, now)
	raw := New(store, Options[string, []byte]{Prefix: "b:", Codec: Bytes[[]byte]()})
	check.NoError(t, raw.Set(ctx, "k", []byte{0, 255}))
	encoded, err := store.Get(ctx, "b:k")
	check.NoError(t, err)
	check.Equal(t, "bytes in the store", string(encoded), "\x00\xff")
}

func TestCodecErrorsNameTheKey(t *testing.T) {
	ctx, store := t.Context(), openCache(t).Store()
	check.NoError(t, store.Set(ctx, "user:7", []byte("not JSON"), 0))
	users := New(store, Options[int, user]{Prefix: "user:"})
	_, get := users.Get(ctx, 7)
	_, load := users.GetOrLoad(ctx, 7, nil)
	funcs := New(store, Options[string, func()]{})
	for name, err := range map[string]error{"Get": get, "GetOrLoad": load, "Set": funcs.Set(ctx, "user:7", func() {})} {
		var failed *CodecError
		if !errors.As(err, &failed) || failed.Key != "user:7" || failed.IsDecode != (name != "Set") {
			t.Errorf("%s: error %v, want a CodecError that names the key", name, err)
			continue
		}
		if !strings.Contains(err.Error(), `"user:7"`) || errors.Unwrap(err) == nil {
			t.Errorf("%s: error %v, want the key and the error of the codec", name, err)
		}
	}
}

// panics is a codec with a defect.
type panics struct{ inEncode bool }

func (p panics) Encode(value string) ([]byte, error) {
	if p.inEncode {
		panic("defect in Encode")
	}
	return []byte(value), nil
}

func (panics) Decode([]byte) (string, error) { panic("defect in Decode") }

func TestPanicsInCodecsReleaseEverything(t *testing.T) {
	check.GoroutineLeaks(t)
	ctx, cache := t.Context(), openCache(t)
	recovered := func(do func()) (reason any) {
		defer func() { reason = recover() }()
		do()
		return nil
	}
	encodes := New(cache.Store(), Options[int, string]{Codec: panics{inEncode: true}})
	decodes := New(cache.Store(), Options[int, string]{Codec: panics{}})
	// The values need more than the memory of the cache: if a value stayed pinned, no memory would be
	// left for the others.
	for round := range 2000 {
		check.Equal(t, "Set", recovered(func() { _ = encodes.Set(ctx, round, "v") }), any("defect in Encode"))
		check.NoError(t, decodes.Set(ctx, round, strings.Repeat("v", 10_000)))
		check.Equal(t, "Get", recovered(func() { _, _ = decodes.Get(ctx, round) }), any("defect in Decode"))
	}
	load := func(context.Context, int) (string, time.Duration, error) { return "v", 0, nil }
	for range 2 {
		var panicked *larder.PanicError
		if _, err := encodes.GetOrLoad(ctx, -1, load); !errors.As(err, &panicked) {
			t.Errorf("GetOrLoad: error %v, want a PanicError", err)
		}
	}
}

func TestKeysAndTimes(t *testing.T) {
	ctx, cache := t.Context(), openCache(t)
	type point struct{ x, y int }
	points := New(cache.Store(), Options[point, string]{
		Prefix: "p:", TTL: time.Minute,
		KeyText: func(p point) string { return fmt.Sprintf("%d,%d", p.x, p.y) },
	})
	check.NoError(t, points.Set(ctx, point{1, 2}, "v"))
	check.NoError(t, points.SetFor(ctx, point{3, 4}, "v", time.Hour))
	for key, want := range map[string]time.Duration{"p:1,2": time.Minute, "p:3,4": time.Hour} {
		item, _, ok := cache.Peek(key)
		if !ok || item.TTL > want || item.TTL < want-10*time.Second {
			t.Errorf("Peek(%q) = %+v, %v, want %v to live", key, item, ok, want)
		}
	}
	check.NoError(t, points.SetFor(ctx, point{1, 2}, "v", -1))
	_, err := points.Get(ctx, point{1, 2})
	check.ErrorIs(t, "Get after SetFor with a negative ttl", err, larder.ErrNotFound)
}
