package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// answer records a handler's response as an [http.ResponseWriter].
type answer struct {
	header http.Header
	status int
	// The headers at the time of WriteHeader; later changes have no effect.
	sent     http.Header
	body     bytes.Buffer
	bodyMax  int
	tooLarge bool
}

var errTooLarge = errors.New("the body exceeds BodyMax")

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	// Informational statuses below 200 precede the actual one.
	if a.status != 0 || status < 200 {
		return
	}
	a.status, a.sent = status, a.header.Clone()
	if a.sent.Get("Date") == "" {
		a.sent.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	}
}

func (a *answer) Write(part []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.sent.Get("Content-Type") == "" && a.body.Len() == 0 {
		a.sent.Set("Content-Type", http.DetectContentType(part))
	}
	if a.tooLarge || a.body.Len()+len(part) > a.bodyMax {
		a.tooLarge = true
		return 0, errTooLarge
	}
	return a.body.Write(part)
}

func (a *answer) write(w http.ResponseWriter) {
	copyHeader(w.Header(), a.sent)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes())
}

// The statuses that HTTP allows a cache to store by default.
var storedStatuses = []int{200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501}

// storeFor returns how long the response may be stored, according to its headers, or ttl by
// default. 0 means that it must not be stored.
func (a *answer) storeFor(ttl time.Duration, varies []string) time.Duration {
	control := directives(a.sent)
	for _, never := range []string{"no-store", "private", "no-cache"} {
		if _, is := control[never]; is {
			return 0
		}
	}
	if a.tooLarge || a.sent.Get("Set-Cookie") != "" || !variesBy(a.sent, varies) {
		return 0
	}
	for _, name := range []string{"s-maxage", "max-age"} {
		if value, is := control[name]; is {
			secs, err := strconv.ParseUint(value, 10, 31)
			if err != nil {
				return 0
			}
			return time.Duration(secs) * time.Second
		}
	}
	if !slices.Contains(storedStatuses, a.status) {
		return 0
	}
	return ttl
}

// directives returns the directives of Cache-Control with their values.
func directives(header http.Header) map[string]string {
	found := map[string]string{}
	for _, directive := range strings.Split(strings.Join(header.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		found[strings.ToLower(name)] = strings.Trim(value, `"`)
	}
	return found
}

// variesBy reports whether the response varies only by these request headers.
func variesBy(header http.Header, names []string) bool {
	for _, name := range strings.Split(strings.Join(header.Values("Vary"), ","), ",") {
		name = strings.TrimSpace(name)
		known := func(other string) bool { return strings.EqualFold(name, other) }
		if name != "" && !slices.ContainsFunc(names, known) {
			return false
		}
	}
	return true
}

// encode returns the response in the format of HTTP/1.1.
func (a *answer) encode() []byte {
	response := http.Response{
		StatusCode: a.status, ProtoMajor: 1, ProtoMinor: 1, Header: a.sent,
		Body: io.NopCloser(bytes.NewReader(a.body.Bytes())), ContentLength: int64(a.body.Len()),
	}
	var encoded bytes.Buffer
	// Neither the body nor the buffer returns errors.
	_ = response.Write(&encoded)
	return encoded.Bytes()
}

func decode(encoded []byte) (*http.Response, error) {
	return http.ReadResponse(bufio.NewReader(bytes.NewReader(encoded)), nil)
}
