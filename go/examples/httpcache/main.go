// Command httpcache puts a cache in front of HTTP handlers. The handler handles one of several
// concurrent requests. The cache stores the response for the time that its headers allow, and
// serves it for another minute while it is refreshed.
//
//	go run ./httpcache
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"time"

	"larder.example/larder"
)

// site is a slow handler that counts its requests.
type site struct {
	handled atomic.Int64
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.handled.Add(1)
	time.Sleep(20 * time.Millisecond)
	switch r.URL.Path {
	case "/news":
		w.Header().Set("Cache-Control", "max-age=1")
	case "/account":
		w.Header().Set("Cache-Control", "no-store")
	case "/greeting":
		w.Header().Set("Vary", "Accept-Language")
	}
	fmt.Fprintf(w, "%s, made at %s\n", r.URL.Path, time.Now().Format("15:04:05.000"))
}

func main() {
	cache, err := larder.Open(larder.Options{Memory: 16 << 20, StaleFor: time.Minute, LoadTimeout: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()
	answers := &Answers{Cache: cache, TTL: time.Minute, Vary: []string{"Accept-Language"}, BodyMax: 1 << 20}
	var site site
	server := httptest.NewServer(answers.Handler(&site))
	defer server.Close()
	for _, step := range []struct {
		what, path, language string
		requests             int
		wait                 time.Duration
	}{
		{"fifty concurrent requests", "/news", "", 50, 0},
		{"again", "/news", "", 1, 0},
		{"after it has expired: served stale during a refresh", "/news", "", 1, 2100 * time.Millisecond},
		{"in Finnish", "/greeting", "fi", 1, 0},
		{"in Maltese", "/greeting", "mt", 1, 0},
		{"in Finnish again", "/greeting", "fi", 1, 0},
		{"no-store, ten concurrent requests", "/account", "", 10, 0},
	} {
		time.Sleep(step.wait)
		before, started := site.handled.Load(), time.Now()
		if err := getConcurrently(server.URL+step.path, step.language, step.requests); err != nil {
			log.Fatal(err)
		}
		took := time.Since(started).Round(time.Microsecond)
		// A refresh continues in the background.
		time.Sleep(50 * time.Millisecond)
		fmt.Printf("%-10s %-54s %10v   requests: %2d, handled: %2d\n",
			step.path, step.what, took, step.requests, site.handled.Load()-before)
	}
}

func getConcurrently(url, language string, requests int) error {
	errs := make(chan error, requests)
	var group sync.WaitGroup
	for range requests {
		group.Add(1)
		go func() {
			defer group.Done()
			_, _, err := get(url, http.Header{"Accept-Language": {language}})
			errs <- err
		}()
	}
	group.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func get(url string, header http.Header) (*http.Response, string, error) {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return nil, "", err
	}
	request.Header = header
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response, string(body), err
}
