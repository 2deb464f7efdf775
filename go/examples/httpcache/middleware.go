package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"larder.example/larder"
)

// Answers caches the responses to GET requests: status, headers and body.
//
// It is for handlers whose response depends only on the URL. Other handlers must set Vary, or a
// Cache-Control of no-store, private or no-cache. It does not suit streaming handlers, because it
// sends complete responses.
type Answers struct {
	Cache *larder.Cache
	// TTL applies to responses without an explicit lifetime, in whole seconds; 0 disables their
	// caching.
	TTL time.Duration
	// Vary lists the request headers by which responses may vary. A response that varies by another
	// header is not cached.
	Vary []string
	// BodyMax limits the bodies that are cached, in bytes. Each request in progress may take that
	// much memory.
	BodyMax int
}

// bypassFor is how long Handler remembers that the response for a URL is not cacheable. During this
// time, requests for the URL do not wait for each other.
const bypassFor = time.Second

// Handler returns a caching handler. If several concurrent requests are for the same response, next
// handles one of them. If its response is cacheable, the other requests receive it; otherwise next
// handles them separately.
func (a *Answers) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !mayBeShared(r) {
			next.ServeHTTP(w, r)
			return
		}
		// The response that this request's own load has recorded, if any.
		var own atomic.Pointer[answer]
		stored, err := a.Cache.GetOrLoad(r.Context(), a.key(r), func(ctx context.Context, _ string) ([]byte, time.Duration, error) {
			recorded := a.record(ctx, next, r)
			// A cancelled handler may have written half of its response.
			if ctx.Err() != nil {
				return nil, 0, context.Cause(ctx)
			}
			own.Store(recorded)
			if ttl := recorded.storeFor(a.TTL, a.Vary); ttl > 0 {
				return recorded.encode(), ttl, nil
			}
			// An empty value means that the response is not cacheable.
			return nil, bypassFor, nil
		})
		var panicked *larder.PanicError
		switch {
		case err == nil && len(stored) > 0:
			writeEncoded(w, stored)
		case err == nil && own.Load() != nil && !own.Load().tooLarge:
			own.Load().write(w)
		case errors.As(err, &panicked):
			// Panic as the handler does without the cache, also with http.ErrAbortHandler.
			panic(panicked.Value)
		case errors.Is(err, larder.ErrLoadTimeout):
			http.Error(w, "the response takes too long", http.StatusGatewayTimeout)
		case r.Context().Err() == nil:
			next.ServeHTTP(w, r)
		}
	})
}

// mayBeShared reports whether the response to a request may be valid for other requests.
func mayBeShared(r *http.Request) bool {
	_, noStore := directives(r.Header)["no-store"]
	return r.Method == http.MethodGet && r.ContentLength == 0 && !noStore &&
		r.Header.Get("Authorization") == "" && r.Header.Get("Range") == "" && r.Header.Get("Upgrade") == ""
}

// key returns the cache key of a request. URLs may exceed the length of a key, so it is a hash.
func (a *Answers) key(r *http.Request) string {
	parts := []string{r.Host, r.URL.RequestURI(), fmt.Sprint(r.TLS != nil)}
	for _, name := range a.Vary {
		parts = append(parts, strings.Join(r.Header.Values(name), ","))
	}
	return fmt.Sprintf("http:%x", sha256.Sum256(fmt.Appendf(nil, "%q", parts)))
}

// record runs the handler without the conditions of the request, and records its response.
func (a *Answers) record(ctx context.Context, next http.Handler, r *http.Request) *answer {
	r = r.Clone(ctx)
	r.Body = http.NoBody
	for _, condition := range []string{"If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since"} {
		r.Header.Del(condition)
	}
	recorded := &answer{header: http.Header{}, bodyMax: a.BodyMax}
	next.ServeHTTP(recorded, r)
	recorded.WriteHeader(http.StatusOK)
	return recorded
}

func writeEncoded(w http.ResponseWriter, stored []byte) {
	response, err := decode(stored)
	if err != nil {
		http.Error(w, "invalid response in the cache", http.StatusInternalServerError)
		return
	}
	defer response.Body.Close()
	copyHeader(w.Header(), response.Header)
	if recorded, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		w.Header().Set("Age", fmt.Sprint(int(max(time.Since(recorded), 0).Seconds())))
	}
	w.WriteHeader(response.StatusCode)
	_, _ = io.Copy(w, response.Body)
}

func copyHeader(to, from http.Header) {
	for name, values := range from {
		to[name] = slices.Clone(values)
	}
}
