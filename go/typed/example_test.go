package typed_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"larder.example/larder"
	"larder.example/larder/typed"
)

type User struct {
	Name  string
	Score int
}

// The line that opens the cache decides where its items are: larder.Open, remote.Connect or
// shared.Open.
func Example() {
	cache, err := larder.Open(larder.Options{Memory: 16 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()

	ctx := context.Background()
	users := typed.New(cache.Store(), typed.Options[int, User]{Prefix: "user:", TTL: time.Hour})
	if err := users.Set(ctx, 7, User{"ada", 42}); err != nil {
		log.Fatal(err)
	}
	user, err := users.Get(ctx, 7)
	fmt.Println(user.Name, user.Score, err)
	_, err = users.Get(ctx, 8)
	fmt.Println(errors.Is(err, larder.ErrNotFound))
	// Output:
	// ada 42 <nil>
	// true
}

// One goroutine loads the value for all callers that request it at the same time.
func ExampleCache_GetOrLoad() {
	cache, _ := larder.Open(larder.Options{Memory: 16 << 20})
	defer cache.Close()

	users := typed.New(cache.Store(), typed.Options[int, User]{Prefix: "user:"})
	load := func(ctx context.Context, id int) (User, time.Duration, error) {
		return User{Name: fmt.Sprint("user ", id)}, 10 * time.Minute, nil
	}
	user, err := users.GetOrLoad(context.Background(), 7, load)
	fmt.Println(user.Name, err)
	// Output: user 7 <nil>
}

// Types with MarshalBinary and UnmarshalBinary, such as time.Time, need no JSON.
func ExampleBinary() {
	cache, _ := larder.Open(larder.Options{Memory: 16 << 20})
	defer cache.Close()

	seen := typed.New(cache.Store(), typed.Options[string, time.Time]{Codec: typed.Binary[time.Time]()})
	_ = seen.Set(context.Background(), "ada", time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC))
	at, err := seen.Get(context.Background(), "ada")
	fmt.Println(at.Format(time.DateOnly), err)
	// Output: 2030-01-02 <nil>
}
