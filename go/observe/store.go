package observe

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"larder.example/larder"
)

// Options configure [Store]. The zero value of each field disables its feature.
type Options struct {
	// Name is the attribute cache of spans and log records.
	Name string
	// Tracer starts a span for each call, and one for each load.
	Tracer trace.Tracer
	// Logger receives a record of level Warn for each call that fails, and for each slow call.
	Logger *slog.Logger
	// Slow is the duration from which on a call counts as slow. 0 disables records of slow calls.
	Slow time.Duration
	// WithKeys adds the attribute key. Keys may be secrets, or too many for a backend.
	WithKeys bool
}

// Store returns a store that reports its calls. A miss is not a failure: its span has the attribute
// hit, with the value false. The returned store has the methods GetMany, Touch and GetOrLoad if the
// given store has all of them, as the stores of module larder do.
//
// The cost of a call is the span, if its tracer records it, and with a Logger a read of the clock.
func Store(store larder.Store, options Options) larder.Store {
	base := observed{store, &options}
	many, isMany := store.(larder.ManyStore)
	loads, hasLoads := store.(loader)
	if isMany && hasLoads {
		return observedAll{base, many, loads}
	}
	return base
}

// loader is a store that loads values.
type loader interface {
	GetOrLoad(ctx context.Context, key string, loader larder.Loader) ([]byte, error)
}

type observed struct {
	store   larder.Store
	options *Options
}

type observedAll struct {
	observed
	many  larder.ManyStore
	loads loader
}

// call is a call in progress.
type call struct {
	options *Options
	name    string
	key     string
	begun   time.Time
	span    trace.Span
}

func (o *Options) begin(ctx context.Context, name, key string) (context.Context, *call) {
	c := &call{options: o, name: name, key: key}
	if o.Logger != nil {
		c.begun = time.Now()
	}
	if o.Tracer == nil {
		return ctx, c
	}
	attributes := []attribute.KeyValue{attribute.String("cache", o.Name)}
	if o.WithKeys && key != "" {
		attributes = append(attributes, attribute.String("key", key))
	}
	ctx, c.span = o.Tracer.Start(ctx, "cache "+name, trace.WithAttributes(attributes...))
	return ctx, c
}

// end reports the outcome of a call. The attributes belong to its span.
func (c *call) end(ctx context.Context, err error, attributes ...attribute.KeyValue) {
	isFailure := err != nil && !errors.Is(err, larder.ErrNotFound)
	if c.span != nil {
		c.span.SetAttributes(attributes...)
		if isFailure {
			c.span.RecordError(err)
			c.span.SetStatus(codes.Error, err.Error())
		}
		c.span.End()
	}
	if c.options.Logger == nil {
		return
	}
	took := time.Since(c.begun)
	message := ""
	switch {
	case isFailure:
		message = "cache call failed"
	case c.options.Slow > 0 && took >= c.options.Slow:
		message = "slow cache call"
	default:
		return
	}
	record := []slog.Attr{
		slog.String("cache", c.options.Name), slog.String("call", c.name), slog.Duration("took", took),
	}
	if c.options.WithKeys && c.key != "" {
		record = append(record, slog.String("key", c.key))
	}
	if isFailure {
		record = append(record, slog.Any("error", err))
	}
	c.options.Logger.LogAttrs(ctx, slog.LevelWarn, message, record...)
}

func hit(is bool) attribute.KeyValue { return attribute.Bool("hit", is) }

func (o observed) Get(ctx context.Context, key string) ([]byte, error) {
	ctx, call := o.options.begin(ctx, "get", key)
	value, err := o.store.Get(ctx, key)
	call.end(ctx, err, hit(err == nil))
	return value, err
}

func (o observed) Set(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	ctx, call := o.options.begin(ctx, "set", key)
	err := o.store.Set(ctx, key, value, ttl)
	call.end(ctx, err, attribute.Int("bytes", len(value)))
	return err
}

func (o observed) Delete(ctx context.Context, key string) error {
	ctx, call := o.options.begin(ctx, "delete", key)
	err := o.store.Delete(ctx, key)
	call.end(ctx, err)
	return err
}

func (o observedAll) GetMany(ctx context.Context, keys []string, visit func(at int, value []byte)) error {
	ctx, call := o.options.begin(ctx, "get_many", "")
	hits := 0
	err := o.many.GetMany(ctx, keys, func(at int, value []byte) {
		hits++
		visit(at, value)
	})
	call.end(ctx, err, attribute.Int("keys", len(keys)), attribute.Int("hits", hits))
	return err
}

func (o observedAll) Touch(ctx context.Context, key string, ttl time.Duration) (bool, error) {
	ctx, call := o.options.begin(ctx, "touch", key)
	isThere, err := o.many.Touch(ctx, key, ttl)
	call.end(ctx, err, hit(isThere))
	return isThere, err
}

// GetOrLoad reports a load as a separate call, because it may outlive the call that began it.
func (o observedAll) GetOrLoad(ctx context.Context, key string, loader larder.Loader) ([]byte, error) {
	ctx, call := o.options.begin(ctx, "get_or_load", key)
	value, err := o.loads.GetOrLoad(ctx, key, func(ctx context.Context, key string) ([]byte, time.Duration, error) {
		ctx, load := o.options.begin(ctx, "load", key)
		loaded, ttl, err := loader(ctx, key)
		load.end(ctx, err, attribute.Int("bytes", len(loaded)))
		return loaded, ttl, err
	})
	call.end(ctx, err)
	return value, err
}
