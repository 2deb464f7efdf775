// Package prometheus exports the statistics of a cache to Prometheus. It is a separate module, so
// that module larder has no dependencies.
//
//	registry.MustRegister(prometheus.NewCollector("pages", cache))
//
// Its metrics have the label cache, the name that the program gives the cache. The hit ratio over
// five minutes is
//
//	rate(larder_cache_hits_total[5m])
//	  / (rate(larder_cache_hits_total[5m]) + rate(larder_cache_misses_total[5m]))
package prometheus

import (
	"github.com/prometheus/client_golang/prometheus"

	"larder.example/larder"
)

// metrics are all metrics of a collector, with the statistics that they show.
var metrics = []struct {
	name, help string
	kind       prometheus.ValueType
	value      func(stats *larder.Stats) uint64
}{
	{"hits_total", "Gets that found an item.", prometheus.CounterValue,
		func(s *larder.Stats) uint64 { return s.Hits }},
	{"misses_total", "Gets that found no item.", prometheus.CounterValue,
		func(s *larder.Stats) uint64 { return s.Misses }},
	{"stores_total", "Items stored, with those that replaced others.", prometheus.CounterValue,
		func(s *larder.Stats) uint64 { return s.Stored }},
	{"evictions_total", "Items removed to free memory.", prometheus.CounterValue,
		func(s *larder.Stats) uint64 { return s.Evictions }},
	{"expirations_total", "Expired items that the cache found and removed.", prometheus.CounterValue,
		func(s *larder.Stats) uint64 { return s.Expired }},
	{"items", "Items in the cache, with expired ones that it has not found yet.", prometheus.GaugeValue,
		func(s *larder.Stats) uint64 { return s.Items }},
	{"memory_limit_bytes", "Memory that the cache may use, everything included.", prometheus.GaugeValue,
		func(s *larder.Stats) uint64 { return s.MemoryLimit }},
	{"memory_used_bytes", "Memory in use, a part of the limit.", prometheus.GaugeValue,
		func(s *larder.Stats) uint64 { return s.MemoryUsed }},
	{"item_bytes", "Memory of the items with their metadata, a part of the memory in use.", prometheus.GaugeValue,
		func(s *larder.Stats) uint64 { return s.ItemBytes }},
	{"index_bytes", "Memory of the index, a part of the memory in use.", prometheus.GaugeValue,
		func(s *larder.Stats) uint64 { return s.IndexBytes }},
}

// collector collects the statistics of one cache.
type collector struct {
	cache        *larder.Cache
	descriptions []*prometheus.Desc
}

// NewCollector returns a collector of the statistics of a cache. Programs with several caches
// register a collector for each, with distinct names. After Close of the cache all values are 0.
func NewCollector(name string, cache *larder.Cache) prometheus.Collector {
	c := &collector{cache: cache}
	for _, metric := range metrics {
		c.descriptions = append(c.descriptions, prometheus.NewDesc(
			"larder_cache_"+metric.name, metric.help, nil, prometheus.Labels{"cache": name}))
	}
	return c
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range c.descriptions {
		descriptions <- description
	}
}

// Collect implements [prometheus.Collector]. It reads all values at the same time.
func (c *collector) Collect(values chan<- prometheus.Metric) {
	stats := c.cache.Stats()
	for at, metric := range metrics {
		values <- prometheus.MustNewConstMetric(c.descriptions[at], metric.kind, float64(metric.value(&stats)))
	}
}
