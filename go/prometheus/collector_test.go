package prometheus

import (
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"larder.example/larder"
)

func open(t testing.TB, options larder.Options) *larder.Cache {
	t.Helper()
	cache, err := larder.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cache.Close() })
	return cache
}

// scrape returns the text that Prometheus receives from a registry.
func scrape(t testing.TB, registry *prometheus.Registry) string {
	t.Helper()
	response := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).
		ServeHTTP(response, httptest.NewRequest("GET", "/metrics", nil))
	text, err := io.ReadAll(response.Body)
	if err != nil || response.Code != 200 {
		t.Fatalf("scrape: status %d, %v: %s", response.Code, err, text)
	}
	return string(text)
}

func TestScrapeShowsTheStatisticsOfEachCache(t *testing.T) {
	registry := prometheus.NewRegistry()
	pages, users := open(t, larder.Options{Memory: 4 << 20}), open(t, larder.Options{Memory: 1 << 20})
	registry.MustRegister(NewCollector("pages", pages), NewCollector("users", users))
	for at := range 3000 {
		if err := users.Set(fmt.Sprint(at), make([]byte, 1000), 0); err != nil {
			t.Fatal(err)
		}
	}
	_ = pages.Set("home", []byte("page"), 0)
	pages.Get("home")
	pages.Get("home")
	pages.Get("none")
	stats := users.Stats()
	text := scrape(t, registry)
	for _, line := range []string{
		`larder_cache_hits_total{cache="pages"} 2`,
		`larder_cache_misses_total{cache="pages"} 1`,
		`larder_cache_stores_total{cache="pages"} 1`,
		`larder_cache_items{cache="pages"} 1`,
		`larder_cache_memory_limit_bytes{cache="pages"} 4.194304e+06`,
		`larder_cache_hits_total{cache="users"} 0`,
		`larder_cache_stores_total{cache="users"} 3000`,
		fmt.Sprintf(`larder_cache_evictions_total{cache="users"} %d`, stats.Evictions),
		fmt.Sprintf(`larder_cache_items{cache="users"} %d`, 3000-stats.Evictions),
		"# TYPE larder_cache_evictions_total counter",
		"# TYPE larder_cache_items gauge",
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("the scrape has no line %q:\n%s", line, text)
		}
	}
	if stats.Evictions == 0 {
		t.Error("the full cache has evicted nothing, want evictions in the scrape")
	}
}

func TestNamesAndHelpFollowPrometheusConventions(t *testing.T) {
	collector := NewCollector("pages", open(t, larder.Options{}))
	problems, err := testutil.CollectAndLint(collector)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
	if got := testutil.CollectAndCount(collector); got != len(metrics) {
		t.Errorf("the collector has %d metrics, want %d", got, len(metrics))
	}
}

// Two caches with the same name would be one series.
func TestEachCacheNeedsAName(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector("pages", open(t, larder.Options{})))
	err := registry.Register(NewCollector("pages", open(t, larder.Options{})))
	if !errors.As(err, &prometheus.AlreadyRegisteredError{}) {
		t.Errorf("second collector of the name: error %v, want an AlreadyRegisteredError", err)
	}
}

func TestScrapeOfAClosedCache(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	cache := open(t, larder.Options{})
	registry.MustRegister(NewCollector("pages", cache))
	_ = cache.Set("k", []byte("v"), 0)
	var all sync.WaitGroup
	for worker := range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			for at := range 50 {
				if worker == 0 && at == 25 {
					_ = cache.Close()
				}
				scrape(t, registry)
			}
		}()
	}
	all.Wait()
	if text := scrape(t, registry); !strings.Contains(text, "larder_cache_items{cache=\"pages\"} 0\n") {
		t.Errorf("scrape of a closed cache, want 0 items:\n%s", text)
	}
}
