package bigcache_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"larder.example/larder/bigcache"
)

func Example() {
	cache, err := bigcache.New(context.Background(), bigcache.DefaultConfig(10*time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()

	if err := cache.Set("greeting", []byte("hello")); err != nil {
		log.Fatal(err)
	}
	if err := cache.Append("greeting", []byte(", world")); err != nil {
		log.Fatal(err)
	}
	entry, err := cache.Get("greeting")
	fmt.Println(string(entry), err)

	_, err = cache.Get("farewell")
	fmt.Println(errors.Is(err, bigcache.ErrEntryNotFound))
	// Output:
	// hello, world <nil>
	// true
}

// A callback receives each deleted entry, and may use the cache.
func ExampleConfig_OnRemoveFilterSet() {
	removed := make(chan string, 1)
	config := bigcache.Config{
		Shards:           1,
		HardMaxCacheSize: 64,
		OnRemoveWithReason: func(key string, entry []byte, reason bigcache.RemoveReason) {
			removed <- fmt.Sprint(key, " was ", string(entry), ": ", reason == bigcache.Deleted)
		},
	}
	cache, err := bigcache.New(context.Background(), config.OnRemoveFilterSet(bigcache.Deleted))
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()

	_ = cache.Set("key", []byte("entry"))
	_ = cache.Delete("key")
	fmt.Println(<-removed)
	// Output: key was entry: true
}

// The iterator returns every entry that exists during the complete iteration.
func ExampleBigCache_Iterator() {
	cache, err := bigcache.New(context.Background(), bigcache.Config{Shards: 1, HardMaxCacheSize: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()

	_ = cache.Set("a", []byte("first"))
	_ = cache.Set("b", []byte("second"))
	bytes := 0
	for it := cache.Iterator(); it.SetNext(); {
		entry, err := it.Value()
		if err != nil {
			log.Fatal(err)
		}
		bytes += len(entry.Value())
	}
	fmt.Println(bytes)
	// Output: 11
}
