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

	"larder"
)

// Answers keeps the answers to GET requests: status, headers and body.
//
// It is for handlers that answer the same to all who ask for the same URL; one that does not says so by a Vary, or by a
// Cache-Control of no-store, private or no-cache. Handlers that stream do not belong behind it: an answer is shown when it is
// whole.
type Answers struct {
	Cache *larder.Cache
	// TTL is for answers that say nothing of how long they are good for, in whole seconds; 0 has those not kept.
	TTL time.Duration
	// Vary are the headers of requests by which answers may differ. One whose Vary names another is not kept.
	Vary []string
	// BodyMax is the largest body that is kept, in bytes: so much memory may each request that is under way take.
	BodyMax int
}

// How long it is remembered that the answers of a URL are not to be kept, so that requests for it do not wait for each
// other.
const passFor = time.Second

// Handler puts the cache before a handler. Of all requests for the same at a time, one is handled, and all get its answer,
// if it may be kept; if not, each is handled by itself.
func (a *Answers) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !mayBeKept(r) {
			next.ServeHTTP(w, r)
			return
		}
		// What this request's own load has brought, if it has made one.
		var own atomic.Pointer[answer]
		kept, err := a.Cache.GetOrLoad(r.Context(), a.key(r), func(ctx context.Context, _ string) ([]byte, time.Duration, error) {
			made := a.ask(ctx, next, r)
			// Who was told to end may have answered half.
			if ctx.Err() != nil {
				return nil, 0, context.Cause(ctx)
			}
			own.Store(made)
			if ttl := made.keepFor(a.TTL, a.Vary); ttl > 0 {
				return made.encode(), ttl, nil
			}
			// Nothing says: ask the handler.
			return nil, passFor, nil
		})
		var panicked *larder.PanicError
		switch {
		case err == nil && len(kept) > 0:
			writeEncoded(w, kept)
		case err == nil && own.Load() != nil && !own.Load().tooLarge:
			own.Load().write(w)
		case errors.As(err, &panicked):
			// As without the cache; http.ErrAbortHandler among them.
			panic(panicked.Value)
		case errors.Is(err, larder.ErrLoadTimeout):
			http.Error(w, "the answer takes too long", http.StatusGatewayTimeout)
		case r.Context().Err() == nil:
			next.ServeHTTP(w, r)
		}
	})
}

// mayBeKept is true for requests whose answers may be meant for others too.
func mayBeKept(r *http.Request) bool {
	_, noStore := directives(r.Header)["no-store"]
	return r.Method == http.MethodGet && r.ContentLength == 0 && !noStore &&
		r.Header.Get("Authorization") == "" && r.Header.Get("Range") == "" && r.Header.Get("Upgrade") == ""
}

// key is where the answer to a request is kept. URLs may be longer than keys.
func (a *Answers) key(r *http.Request) string {
	parts := []string{r.Host, r.URL.RequestURI(), fmt.Sprint(r.TLS != nil)}
	for _, name := range a.Vary {
		parts = append(parts, strings.Join(r.Header.Values(name), ","))
	}
	return fmt.Sprintf("http:%x", sha256.Sum256(fmt.Appendf(nil, "%q", parts)))
}

// ask has the handler answer a request as if nobody had an answer yet.
func (a *Answers) ask(ctx context.Context, next http.Handler, r *http.Request) *answer {
	r = r.Clone(ctx)
	r.Body = http.NoBody
	for _, condition := range []string{"If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since"} {
		r.Header.Del(condition)
	}
	made := &answer{header: http.Header{}, bodyMax: a.BodyMax}
	next.ServeHTTP(made, r)
	made.WriteHeader(http.StatusOK)
	return made
}

func writeEncoded(w http.ResponseWriter, kept []byte) {
	response, err := decode(kept)
	if err != nil {
		http.Error(w, "what is in the cache is no answer", http.StatusInternalServerError)
		return
	}
	defer response.Body.Close()
	copyHeader(w.Header(), response.Header)
	if made, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		w.Header().Set("Age", fmt.Sprint(int(max(time.Since(made), 0).Seconds())))
	}
	w.WriteHeader(response.StatusCode)
	_, _ = io.Copy(w, response.Body)
}

func copyHeader(to, from http.Header) {
	for name, values := range from {
		to[name] = slices.Clone(values)
	}
}
