package observe_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"go.opentelemetry.io/otel"

	"larder.example/larder"
	"larder.example/larder/observe"
)

func Example() {
	cache, err := larder.Open(larder.Options{Memory: 8 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cache.Close()
	// The program sets the providers of package otel, which decide where metrics and spans go.
	if _, err := observe.Metrics(otel.Meter("pages"), "pages", cache.Stats); err != nil {
		fmt.Println(err)
		return
	}
	store := observe.Store(cache.Store(), observe.Options{
		Name: "pages", Tracer: otel.Tracer("pages"), Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	ctx := context.Background()
	_ = store.Set(ctx, "front", []byte("<html>"), 0)
	page, err := store.Get(ctx, "front")
	fmt.Println(string(page), err)
	// Output: <html> <nil>
}
