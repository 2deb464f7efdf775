package shared_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	larder "larder/shared"
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

// A durable store: memory keeps the items in use, and a restart finds all.
func ExampleOpen_tier() {
	folder, _ := os.MkdirTemp("", "larder")
	defer os.RemoveAll(folder)
	options := larder.Options{
		Memory: 16 << 20,
		Tier: &larder.Tier{
			Path: filepath.Join(folder, "store"), Size: 64 << 20, Durability: larder.DurabilitySync,
		},
	}
	for range 2 {
		store, err := larder.Open(options)
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

func ExampleCache_GetInto() {
	cache, _ := larder.Open(larder.Options{Memory: 16 << 20})
	defer cache.Close()
	_ = cache.Set("a", []byte("1"), 0)

	// All values share one buffer.
	var buffer []byte
	for _, key := range []string{"a", "b"} {
		value, _, err := cache.GetInto(buffer[:0], key)
		if errors.Is(err, larder.ErrNotFound) {
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

func ExampleCache_GetOrLoad() {
	cache, _ := larder.Open(larder.Options{Memory: 16 << 20, StaleFor: time.Hour})
	defer cache.Close()

	// One goroutine loads for all concurrent callers.
	load := func(ctx context.Context, key string) ([]byte, time.Duration, error) {
		return []byte("page of " + key), 10 * time.Minute, nil
	}
	page, err := cache.GetOrLoad(context.Background(), "user:7", load)
	fmt.Println(string(page), err)
	// Output: page of user:7 <nil>
}

func ExampleCache_CompareAndSwap() {
	cache, _ := larder.Open(larder.Options{Memory: 16 << 20, CAS: true})
	defer cache.Close()
	_ = cache.Set("list", []byte("a"), 0)

	for {
		list, item, err := cache.GetInto(nil, "list")
		if err != nil {
			log.Fatal(err)
		}
		_, err = cache.CompareAndSwap("list", append(list, ",b"...), 0, item.CAS)
		if !errors.Is(err, larder.ErrChanged) {
			break
		}
	}
	list, _ := cache.Get("list")
	fmt.Println(string(list))
	// Output: a,b
}

func ExampleOpenShared() {
	folder, _ := os.MkdirTemp("", "larder")
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "sessions")

	// Two handles, in place of two processes.
	one, err := larder.OpenShared(path, larder.Options{Memory: 16 << 20})
	if err != nil {
		log.Fatal(err)
	}
	other, err := larder.OpenShared(path, larder.Options{})
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

func ExampleOptions_onRemoval() {
	removals := make(chan larder.Removal)
	cache, _ := larder.Open(larder.Options{
		Memory:    16 << 20,
		OnRemoval: func(removal larder.Removal) { removals <- removal },
	})
	defer cache.Close()
	_ = cache.Set("k", []byte("v"), 0)
	_, _ = cache.Delete("k")
	removal := <-removals
	fmt.Println(removal.Key, string(removal.Value), removal.Reason)
	// Output: k v deleted
}
