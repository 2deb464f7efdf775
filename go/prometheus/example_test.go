package prometheus_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"larder.example/larder"
	larderprometheus "larder.example/larder/prometheus"
)

func Example() {
	cache, err := larder.Open(larder.Options{Memory: 16 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()
	cache.Get("greeting")

	registry := prometheus.NewRegistry()
	registry.MustRegister(larderprometheus.NewCollector("pages", cache))
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{}) // for http.Handle("/metrics", handler)

	scrape := httptest.NewRecorder()
	handler.ServeHTTP(scrape, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(scrape.Body.String()) {
		if strings.HasPrefix(line, "larder_cache_misses_total") {
			fmt.Print(line)
		}
	}
	// Output: larder_cache_misses_total{cache="pages"} 1
}
