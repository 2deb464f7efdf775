// Package observe reports the operations and statistics of a cache to OpenTelemetry and [log/slog].
// It is a separate module, so that module larder has no dependencies.
//
//	_, err := observe.Metrics(otel.Meter("pages"), "pages", cache.Stats)
//	store := observe.Store(cache.Store(), observe.Options{Tracer: otel.Tracer("pages")})
//
// [Metrics] exports the statistics of a cache. [Store] adds spans and log records to the calls of a
// store.
package observe

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"larder.example/larder"
)

// counters and gauges are the instruments, with the statistics that they show.
var counters = []instrument{
	{"larder.cache.hits", "{get}", "Gets that found an item.",
		func(s *larder.Stats) uint64 { return s.Hits }},
	{"larder.cache.misses", "{get}", "Gets that found no item.",
		func(s *larder.Stats) uint64 { return s.Misses }},
	{"larder.cache.stores", "{item}", "Items stored, with those that replaced others.",
		func(s *larder.Stats) uint64 { return s.Stored }},
	{"larder.cache.evictions", "{item}", "Items removed to free memory.",
		func(s *larder.Stats) uint64 { return s.Evictions }},
	{"larder.cache.expirations", "{item}", "Expired items that the cache found and removed.",
		func(s *larder.Stats) uint64 { return s.Expired }},
}

var gauges = []instrument{
	{"larder.cache.items", "{item}", "Items in the cache, with expired ones that it has not found yet.",
		func(s *larder.Stats) uint64 { return s.Items }},
	{"larder.cache.memory.limit", "By", "Memory that the cache may use, everything included.",
		func(s *larder.Stats) uint64 { return s.MemoryLimit }},
	{"larder.cache.memory.used", "By", "Memory in use, a part of the limit.",
		func(s *larder.Stats) uint64 { return s.MemoryUsed }},
	{"larder.cache.memory.items", "By", "Memory of the items with their metadata, a part of the memory in use.",
		func(s *larder.Stats) uint64 { return s.ItemBytes }},
	{"larder.cache.memory.index", "By", "Memory of the index, a part of the memory in use.",
		func(s *larder.Stats) uint64 { return s.IndexBytes }},
}

type instrument struct {
	name, unit, description string
	value                   func(stats *larder.Stats) uint64
}

// reading is an instrument of a meter and its value.
type reading struct {
	instrument metric.Int64Observable
	value      func(stats *larder.Stats) uint64
}

// Metrics registers the statistics of a cache with a meter. All instruments have the attribute
// cache, the name that the program gives the cache; caches with distinct names share a meter. All
// values of one collection are read at the same time. To stop, call Unregister of the result. After
// Close of the cache all values are 0.
func Metrics(meter metric.Meter, name string, stats func() larder.Stats) (metric.Registration, error) {
	var readings []reading
	var instruments []metric.Observable
	add := func(made metric.Int64Observable, i *instrument, err error) error {
		if err != nil {
			return fmt.Errorf("observe: the instrument %s: %w", i.name, err)
		}
		readings, instruments = append(readings, reading{made, i.value}), append(instruments, made)
		return nil
	}
	for at := range counters {
		i := &counters[at]
		made, err := meter.Int64ObservableCounter(i.name, metric.WithUnit(i.unit), metric.WithDescription(i.description))
		if err := add(made, i, err); err != nil {
			return nil, err
		}
	}
	for at := range gauges {
		i := &gauges[at]
		made, err := meter.Int64ObservableGauge(i.name, metric.WithUnit(i.unit), metric.WithDescription(i.description))
		if err := add(made, i, err); err != nil {
			return nil, err
		}
	}
	cache := metric.WithAttributes(attribute.String("cache", name))
	return meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		now := stats()
		for _, r := range readings {
			o.ObserveInt64(r.instrument, int64(r.value(&now)), cache)
		}
		return nil
	}, instruments...)
}
