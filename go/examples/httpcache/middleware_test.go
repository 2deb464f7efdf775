package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"larder.example/larder"
)

// equal reports an error of the form "what = got, want want" if the two differ.
func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %#v, want %#v", what, got, want)
	}
}

// serve starts a server, and returns a counter of the requests that its handler receives.
func serve(t *testing.T, options larder.Options, handler http.HandlerFunc) (url string, handled *atomic.Int64) {
	t.Helper()
	options.Memory = 4 << 20
	cache, err := larder.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	handled = new(atomic.Int64)
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handled.Add(1)
		handler(w, r)
	})
	answers := &Answers{Cache: cache, TTL: time.Minute, Vary: []string{"Accept-Language"}, BodyMax: 1000}
	server := httptest.NewServer(answers.Handler(counted))
	t.Cleanup(func() {
		server.Close()
		_ = cache.Close()
	})
	return server.URL, handled
}

// mustGet fails the test if a request fails.
func mustGet(t *testing.T, url string, header http.Header) (*http.Response, string) {
	t.Helper()
	response, body, err := get(url, header)
	if err != nil {
		t.Fatal(err)
	}
	return response, body
}

func TestResponseIsReturnedUnchanged(t *testing.T) {
	url, handled := serve(t, larder.Options{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("X-Colour", "red")
		w.Header().Add("X-Colour", "green")
		if r.URL.Path == "/empty" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Type", "text/x-lard")
		w.WriteHeader(http.StatusNotFound)
		w.Header().Set("X-Late", "too late")
		fmt.Fprint(w, "nothing is at ", r.URL)
	})
	for range 3 {
		response, body := mustGet(t, url+"/a?b=c", nil)
		equal(t, "status", response.StatusCode, 404)
		equal(t, "body", body, "nothing is at /a?b=c")
		equal(t, "X-Late", response.Header.Get("X-Late"), "")
		equal(t, "X-Colour", fmt.Sprint(response.Header["X-Colour"]), "[red green]")
		equal(t, "Content-Type", response.Header.Get("Content-Type"), "text/x-lard")
		response, body = mustGet(t, url+"/empty", nil)
		equal(t, "status of /empty", response.StatusCode, 204)
		equal(t, "body of /empty", body, "")
	}
	equal(t, "handled requests", handled.Load(), 2)
	_, body := mustGet(t, url+"/a?b=d", nil)
	equal(t, "body of another query", body, "nothing is at /a?b=d")
}

// The handler receives one of two requests if the response is cacheable, and both if it is not.
func TestCacheableResponses(t *testing.T) {
	tests := []struct {
		name              string
		request, response http.Header
		status, handled   int
	}{
		{name: "no headers", handled: 1},
		{name: "max-age", response: http.Header{"Cache-Control": {"public, max-age=60"}}, handled: 1},
		{name: "max-age=0", response: http.Header{"Cache-Control": {"max-age=0"}}, handled: 2},
		{name: "s-maxage", response: http.Header{"Cache-Control": {"max-age=0", "s-maxage=60"}}, handled: 1},
		{name: "invalid max-age", response: http.Header{"Cache-Control": {"max-age=soon"}}, handled: 2},
		{name: "no-store", response: http.Header{"Cache-Control": {"No-Store"}}, handled: 2},
		{name: "private", response: http.Header{"Cache-Control": {"private, max-age=60"}}, handled: 2},
		{name: "Set-Cookie", response: http.Header{"Set-Cookie": {"a=b"}}, handled: 2},
		{name: "Vary in the list", response: http.Header{"Vary": {"accept-language"}}, handled: 1},
		{name: "other Vary", response: http.Header{"Vary": {"Accept-Language, Cookie"}}, handled: 2},
		{name: "status 500", status: 500, handled: 2},
		{name: "status 500 with max-age", status: 500, response: http.Header{"Cache-Control": {"max-age=5"}}, handled: 1},
		{name: "no-store in the request", request: http.Header{"Cache-Control": {"no-store"}}, handled: 2},
		{name: "Authorization", request: http.Header{"Authorization": {"Basic eDp5"}}, handled: 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			url, handled := serve(t, larder.Options{}, func(w http.ResponseWriter, _ *http.Request) {
				copyHeader(w.Header(), test.response)
				if test.status != 0 {
					w.WriteHeader(test.status)
				}
				fmt.Fprint(w, "a body")
			})
			for range 2 {
				_, body := mustGet(t, url, test.request)
				equal(t, "body", body, "a body")
			}
			equal(t, "handled requests", int(handled.Load()), test.handled)
		})
	}
}

func TestVarySeparatesResponses(t *testing.T) {
	url, handled := serve(t, larder.Options{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept-Language")
		fmt.Fprint(w, r.Header.Get("Accept-Language"))
	})
	for _, language := range []string{"fi", "mt", "fi", "mt"} {
		_, body := mustGet(t, url, http.Header{"Accept-Language": {language}})
		equal(t, "body", body, language)
	}
	equal(t, "handled requests", handled.Load(), 2)
}

func TestConcurrentRequestsAreHandledOnce(t *testing.T) {
	url, handled := serve(t, larder.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(100 * time.Millisecond)
		fmt.Fprint(w, "a body")
	})
	equal(t, "getConcurrently", getConcurrently(url, "", 30), nil)
	equal(t, "handled requests", handled.Load(), 1)
}

// A request that waits for a response must not receive it if it is not cacheable.
func TestPrivateResponsesAreNotShared(t *testing.T) {
	url, _ := serve(t, larder.Options{}, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(50 * time.Millisecond)
		w.Header().Set("Cache-Control", "private")
		fmt.Fprint(w, r.Header.Get("Cookie"))
	})
	var group sync.WaitGroup
	for user := range 20 {
		group.Add(1)
		go func() {
			defer group.Done()
			cookie := fmt.Sprint("user=", user)
			if _, body, err := get(url, http.Header{"Cookie": {cookie}}); err != nil || body != cookie {
				t.Errorf("body for cookie %q = %q, %v, want the cookie", cookie, body, err)
			}
		}()
	}
	group.Wait()
}

func TestLargeBodyIsReturnedComplete(t *testing.T) {
	large := strings.Repeat("larder ", 10_000)
	url, _ := serve(t, larder.Options{}, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, large) })
	for range 2 {
		if _, body := mustGet(t, url, nil); body != large {
			t.Errorf("body of %d bytes, want %d", len(body), len(large))
		}
	}
}

func TestPanicReachesServer(t *testing.T) {
	url, _ := serve(t, larder.Options{}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panics" {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, "a body")
	})
	if response, body, err := get(url+"/panics", nil); err == nil {
		t.Errorf("get of /panics = %v, %q, want an error", response.Status, body)
	}
	_, body := mustGet(t, url, nil)
	equal(t, "body", body, "a body")
}

func TestLoadTimeoutIsGatewayTimeout(t *testing.T) {
	url, _ := serve(t, larder.Options{LoadTimeout: 50 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	})
	response, _ := mustGet(t, url, nil)
	equal(t, "status", response.StatusCode, http.StatusGatewayTimeout)
}

// The response to a conditional request must not be stored for unconditional requests.
func TestConditionalRequestsGetFullResponse(t *testing.T) {
	url, _ := serve(t, larder.Options{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"one"`)
		http.ServeContent(w, r, "a.txt", time.Time{}, strings.NewReader("a body"))
	})
	for _, condition := range []string{`"one"`, ""} {
		response, body := mustGet(t, url, http.Header{"If-None-Match": {condition}})
		equal(t, "status", response.StatusCode, 200)
		equal(t, "body", body, "a body")
	}
}
