package larder_test

import (
	"context"
	"errors"
	"expvar"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"larder.example/larder"
)

func Example() {
	cache, err := larder.Open(larder.Options{Memory: 16 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()

	if err := cache.Set("greeting", []byte("hello"), time.Minute); err != nil {
		log.Fatal(err)
	}
	value, ok := cache.Get("greeting")
	fmt.Println(string(value), ok)
	// Output: hello true
}

func ExampleOpen() {
	cache, err := larder.Open(larder.Options{
		Memory: 64 << 20,         // all memory of the cache, index included
		TTL:    10 * time.Minute, // for items that are stored with a time to live of 0
		Sweep:  time.Minute,      // removes expired items that no caller reads
	})
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()

	_ = cache.Set("session", []byte("ada"), 0)
	_ = cache.Set("settings", []byte("dark"), larder.Forever)
	session, _, _ := cache.Peek("session")
	settings, _, _ := cache.Peek("settings")
	fmt.Println(session.TTL.Round(time.Minute), settings.TTL)
	// Output: 10m0s 0s
}

// All values share one buffer.
func ExampleCache_GetInto() {
	cache, _ := larder.Open(larder.Options{})
	defer cache.Close()
	_ = cache.Set("a", []byte("1"), 0)

	var buffer []byte
	for _, key := range []string{"a", "b"} {
		value, ok := cache.GetInto(buffer[:0], key)
		if !ok {
			fmt.Println(key, "is not there")
			continue
		}
		fmt.Printf("%s is %s\n", key, value)
		buffer = value
	}
	// Output:
	// a is 1
	// b is not there
}

// View reads a value in place. The slice is valid during the call only.
func ExampleCache_View() {
	cache, _ := larder.Open(larder.Options{})
	defer cache.Close()
	_ = cache.Set("page", make([]byte, 100_000), 0)

	length := 0
	found := cache.View("page", func(value []byte) { length = len(value) })
	fmt.Println(found, length)
	// Output: true 100000
}

func ExampleCache_GetMany() {
	cache, _ := larder.Open(larder.Options{})
	defer cache.Close()
	_ = cache.Set("a", []byte("1"), 0)
	_ = cache.Set("c", []byte("3"), 0)

	keys := []string{"a", "b", "c"}
	cache.GetMany(keys, func(at int, value []byte) { fmt.Println(keys[at], string(value)) })
	// Output:
	// a 1
	// c 3
}

// One goroutine loads the value for all concurrent callers. For up to an hour after its expiry
// callers receive the expired value, while one of them refreshes it.
func ExampleCache_GetOrLoad() {
	cache, _ := larder.Open(larder.Options{StaleFor: time.Hour})
	defer cache.Close()

	load := func(ctx context.Context, key string) ([]byte, time.Duration, error) {
		return []byte("page of " + key), 10 * time.Minute, nil
	}
	page, err := cache.GetOrLoad(context.Background(), "user:7", load)
	fmt.Println(string(page), err)
	// Output: page of user:7 <nil>
}

func ExampleCache_CompareAndSwap() {
	cache, _ := larder.Open(larder.Options{CAS: true})
	defer cache.Close()
	_ = cache.Set("list", []byte("a"), 0)

	for {
		list, item, ok := cache.GetItem("list")
		if !ok {
			log.Fatal("the list is not there")
		}
		_, err := cache.CompareAndSwap("list", append(list, ",b"...), 0, item.CAS)
		if !errors.Is(err, larder.ErrChanged) {
			break
		}
	}
	list, _ := cache.Get("list")
	fmt.Println(string(list))
	// Output: a,b
}

// Update needs no tokens, and the callback must not use the cache.
func ExampleCache_Update() {
	cache, _ := larder.Open(larder.Options{})
	defer cache.Close()

	for _, word := range []string{"a", "b"} {
		err := cache.Update("list", func(list []byte, _ *larder.Item, isFound bool) ([]byte, larder.Decision) {
			if isFound {
				list = append(list, ',')
			}
			return append(list, word...), larder.StoreItem
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	list, _ := cache.Get("list")
	fmt.Println(string(list))
	// Output: a,b
}

// Flags are opaque to the cache; clients of memcached use them to mark the type of a value.
func ExampleCache_SetItem() {
	cache, _ := larder.Open(larder.Options{})
	defer cache.Close()

	_, err := cache.SetItem("k", []byte("{}"), larder.Item{Flags: 2, TTL: time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	_, item, _ := cache.GetItem("k")
	fmt.Println(item.Flags)
	// Output: 2
}

func ExampleOptions_onRemove() {
	cache, _ := larder.Open(larder.Options{
		OnRemove: func(key string, value []byte, reason larder.Reason) {
			fmt.Println(key, string(value), reason)
		},
	})
	defer cache.Close()
	_ = cache.Set("k", []byte("v"), 0)
	_, _ = cache.Delete("k")
	// Output: k v deleted
}

// A program saves its cache when it ends, and starts with a warm cache the next time.
func ExampleCache_SaveFile() {
	folder, _ := os.MkdirTemp("", "larder")
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "cache")

	cache, _ := larder.Open(larder.Options{})
	_ = cache.Set("greeting", []byte("hello"), time.Hour)
	if err := cache.SaveFile(path); err != nil {
		log.Fatal(err)
	}
	_ = cache.Close()

	cache, _ = larder.Open(larder.Options{})
	defer cache.Close()
	items, err := cache.LoadFile(path)
	greeting, _ := cache.Get("greeting")
	fmt.Println(items, err, string(greeting))
	// Output: 1 <nil> hello
}

func ExampleCache_Stats() {
	cache, _ := larder.Open(larder.Options{})
	defer cache.Close()
	expvar.Publish("cache", cache)

	_ = cache.Set("k", []byte("v"), 0)
	cache.Get("k")
	fmt.Println(cache.Stats().Items, cache.Stats().HitRate())
	// Output: 1 1
}

// The same code works on a cache in the process, on a cache that processes share, and on a server.
func ExampleStore() {
	visit := func(ctx context.Context, store larder.Store) error {
		if _, err := store.Get(ctx, "visited"); !errors.Is(err, larder.ErrNotFound) {
			return err
		}
		return store.Set(ctx, "visited", []byte("yes"), time.Hour)
	}
	cache, _ := larder.Open(larder.Options{})
	defer cache.Close()
	fmt.Println(visit(context.Background(), cache.Store()), cache.Contains("visited"))
	// Output: <nil> true
}
