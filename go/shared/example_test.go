package shared_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"larder.example/larder"
	"larder.example/larder/shared"
)

// Two handles stand for two processes.
func Example() {
	folder, _ := os.MkdirTemp("", "larder")
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "sessions")

	one, err := shared.Open(path, shared.Options{Memory: 16 << 20})
	if err != nil {
		log.Fatal(err)
	}
	other, err := shared.Open(path, shared.Options{})
	if err != nil {
		log.Fatal(err)
	}
	_ = one.Set("session", []byte("ada"), time.Hour)
	_ = one.Close()
	session, _ := other.Get("session")
	fmt.Println(string(session))
	_ = other.Close()
	// Output: ada
}

// A durable store: memory contains the items in use, and after a restart all items are found.
func ExampleOpen_tier() {
	folder, _ := os.MkdirTemp("", "larder")
	defer os.RemoveAll(folder)
	options := shared.Options{
		Memory: 16 << 20,
		Tier: &shared.Tier{
			Path: filepath.Join(folder, "store"), Size: 64 << 20, Durability: shared.DurabilitySync,
		},
	}
	for range 2 {
		store, err := shared.Open("", options)
		if err != nil {
			log.Fatal(err)
		}
		value, ok := store.Get("greeting")
		fmt.Println(string(value), ok)
		if err := store.Set("greeting", []byte("hello"), 0); err != nil {
			log.Fatal(err)
		}
		if err := store.Close(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	//  false
	// hello true
}

// open opens a cache in a new file and returns it with a function that removes both.
func open(options shared.Options) (cache *shared.Cache, end func()) {
	folder, err := os.MkdirTemp("", "larder")
	if err == nil {
		cache, err = shared.Open(filepath.Join(folder, "cache"), options)
	}
	if err != nil {
		log.Fatal(err)
	}
	return cache, func() {
		_ = cache.Close()
		_ = os.RemoveAll(folder)
	}
}

// All processes that share the cache use the result of one load, and a change by any process takes
// precedence over it.
func ExampleCache_GetOrLoad() {
	cache, end := open(shared.Options{StaleFor: time.Hour})
	defer end()

	load := func(ctx context.Context, key string) ([]byte, time.Duration, error) {
		return []byte("page of " + key), 10 * time.Minute, nil
	}
	page, err := cache.GetOrLoad(context.Background(), "user:7", load)
	fmt.Println(string(page), err)
	// Output: page of user:7 <nil>
}

func ExampleCache_CompareAndSwap() {
	cache, end := open(shared.Options{CAS: true})
	defer end()
	_ = cache.Set("list", []byte("a"), 0)

	for {
		list, item, ok := cache.GetItem("list")
		if !ok {
			log.Fatal("there is no list")
		}
		_, err := cache.CompareAndSwap("list", append(list, ",b"...), 0, item.CAS)
		if !errors.Is(err, shared.ErrChanged) {
			break
		}
	}
	list, _ := cache.Get("list")
	fmt.Println(string(list))
	// Output: a,b
}

func ExampleOptions_onRemove() {
	removals := make(chan string)
	cache, end := open(shared.Options{
		OnRemove: func(key string, value []byte, reason larder.Reason) {
			removals <- fmt.Sprintf("%s %s %v", key, value, reason)
		},
	})
	defer end()
	_ = cache.Set("k", []byte("v"), 0)
	_, _ = cache.Delete("k")
	fmt.Println(<-removals)
	// Output: k v deleted
}
