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

	"larder"
)

// serve starts a server whose handler counts how often it is asked.
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

func mustGet(t *testing.T, url string, header http.Header) (*http.Response, string) {
	t.Helper()
	response, body, err := get(url, header)
	if err != nil {
		t.Fatal(err)
	}
	return response, body
}

func TestStatusHeadersAndBodyComeBack(t *testing.T) {
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
		if response.StatusCode != 404 || body != "nothing is at /a?b=c" || response.Header.Get("X-Late") != "" ||
			fmt.Sprint(response.Header["X-Colour"]) != "[red green]" || response.Header.Get("Content-Type") != "text/x-lard" {
			t.Errorf("%+v %q", response, body)
		}
		if response, body := mustGet(t, url+"/empty", nil); response.StatusCode != 204 || body != "" {
			t.Errorf("%+v %q", response, body)
		}
	}
	if handled.Load() != 2 {
		t.Errorf("handled %d times", handled.Load())
	}
	if _, body := mustGet(t, url+"/a?b=d", nil); body != "nothing is at /a?b=d" {
		t.Errorf("%q", body)
	}
}

// What is said of an answer or a request decides how often the handler is asked by two requests.
func TestWhatIsKept(t *testing.T) {
	for _, c := range []struct {
		name              string
		request, response http.Header
		status, handled   int
	}{
		{name: "nothing is said", handled: 1},
		{name: "a time", response: http.Header{"Cache-Control": {"public, max-age=60"}}, handled: 1},
		{name: "no time", response: http.Header{"Cache-Control": {"max-age=0"}}, handled: 2},
		{name: "a time for shared caches", response: http.Header{"Cache-Control": {"max-age=0", "s-maxage=60"}}, handled: 1},
		{name: "no number", response: http.Header{"Cache-Control": {"max-age=soon"}}, handled: 2},
		{name: "no-store", response: http.Header{"Cache-Control": {"No-Store"}}, handled: 2},
		{name: "private", response: http.Header{"Cache-Control": {"private, max-age=60"}}, handled: 2},
		{name: "a cookie", response: http.Header{"Set-Cookie": {"a=b"}}, handled: 2},
		{name: "varies by what is known", response: http.Header{"Vary": {"accept-language"}}, handled: 1},
		{name: "varies by other things", response: http.Header{"Vary": {"Accept-Language, Cookie"}}, handled: 2},
		{name: "an error", status: 500, handled: 2},
		{name: "an error with a time", status: 500, response: http.Header{"Cache-Control": {"max-age=5"}}, handled: 1},
		{name: "asked for without", request: http.Header{"Cache-Control": {"no-store"}}, handled: 2},
		{name: "asked for with a password", request: http.Header{"Authorization": {"Basic eDp5"}}, handled: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			url, handled := serve(t, larder.Options{}, func(w http.ResponseWriter, _ *http.Request) {
				copyHeader(w.Header(), c.response)
				if c.status != 0 {
					w.WriteHeader(c.status)
				}
				fmt.Fprint(w, "an answer")
			})
			for range 2 {
				if _, body := mustGet(t, url, c.request); body != "an answer" {
					t.Errorf("%q", body)
				}
			}
			if int(handled.Load()) != c.handled {
				t.Errorf("handled %d times, expected %d", handled.Load(), c.handled)
			}
		})
	}
}

func TestLanguagesAreKeptApart(t *testing.T) {
	url, handled := serve(t, larder.Options{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept-Language")
		fmt.Fprint(w, r.Header.Get("Accept-Language"))
	})
	for _, language := range []string{"fi", "mt", "fi", "mt"} {
		if _, body := mustGet(t, url, http.Header{"Accept-Language": {language}}); body != language {
			t.Errorf("%q in %q", body, language)
		}
	}
	if handled.Load() != 2 {
		t.Errorf("handled %d times", handled.Load())
	}
}

func TestOfManyAtOnceOneIsHandled(t *testing.T) {
	url, handled := serve(t, larder.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(100 * time.Millisecond)
		fmt.Fprint(w, "an answer")
	})
	if err := getAtOnce(url, "", 30); err != nil || handled.Load() != 1 {
		t.Errorf("handled %d times, %v", handled.Load(), err)
	}
}

// Who waits for an answer that turns out not to be meant for others does not get it.
func TestWhatIsNotKeptIsNotShared(t *testing.T) {
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
				t.Errorf("%q for %q, %v", body, cookie, err)
			}
		}()
	}
	group.Wait()
}

func TestALargeBodyComesWhole(t *testing.T) {
	large := strings.Repeat("larder ", 10_000)
	url, _ := serve(t, larder.Options{}, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, large) })
	for range 2 {
		if _, body := mustGet(t, url, nil); body != large {
			t.Errorf("%d bytes", len(body))
		}
	}
}

func TestAPanicIsTheHandlersOwn(t *testing.T) {
	url, _ := serve(t, larder.Options{}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panics" {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, "an answer")
	})
	if response, body, err := get(url+"/panics", nil); err == nil {
		t.Errorf("%v %q", response, body)
	}
	if _, body := mustGet(t, url, nil); body != "an answer" {
		t.Errorf("%q", body)
	}
}

func TestAnAnswerThatTakesTooLongIsNotWaitedFor(t *testing.T) {
	url, _ := serve(t, larder.Options{LoadTimeout: 50 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	})
	if response, _ := mustGet(t, url, nil); response.StatusCode != http.StatusGatewayTimeout {
		t.Error(response.Status)
	}
}

// Another request's conditions are not those under which an answer is made that all get.
func TestConditionsAreNotKept(t *testing.T) {
	url, _ := serve(t, larder.Options{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"one"`)
		http.ServeContent(w, r, "a.txt", time.Time{}, strings.NewReader("an answer"))
	})
	for _, condition := range []string{`"one"`, ""} {
		response, body := mustGet(t, url, http.Header{"If-None-Match": {condition}})
		if response.StatusCode != 200 || body != "an answer" {
			t.Errorf("%v %q", response.Status, body)
		}
	}
}
