// Package codecs compares the binary codec of larder/wire with the codec of dustin/gomemcached, in
// the same run and on the same messages.
//
//	go test -bench . -count 5 ./codecs
package codecs

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/dustin/gomemcached"

	"larder.example/larder/wire"
)

var (
	key    = []byte("somekey")
	small  = []byte("somevalue")
	large  = bytes.Repeat([]byte("x"), 24<<10)
	extras = []byte{1, 2, 3, 4, 5, 6, 7, 8}
)

// pair is the same work for both codecs. Each function does the work n times.
type pair struct {
	name         string
	ours, theirs func(n int)
	// most is the highest allowed ratio of our time to theirs.
	most float64
}

func pairs() (all []pair) {
	for _, m := range []struct {
		name          string
		extras, value []byte
	}{{"", nil, small}, {" with extras", extras, small}, {" of 24 KiB", nil, large}} {
		ourRequest := &wire.BinaryRequest{Opcode: wire.OpSet, CAS: 938424885, Opaque: 7242, Extras: m.extras, Key: key, Value: m.value}
		theirRequest := &gomemcached.MCRequest{Opcode: gomemcached.SET, Cas: 938424885, Opaque: 7242, Extras: m.extras, Key: key, Body: m.value}
		ourResponse := &wire.BinaryResponse{Opcode: wire.OpSet, CAS: 938424885, Opaque: 7242, Extras: m.extras, Key: key, Value: m.value}
		theirResponse := &gomemcached.MCResponse{Opcode: gomemcached.SET, Cas: 938424885, Opaque: 7242, Extras: m.extras, Key: key, Body: m.value}
		request, response := ourRequest.AppendTo(nil), ourResponse.AppendTo(nil)
		all = append(all,
			encode("request"+m.name, ourRequest, theirRequest, m.value),
			encode("response"+m.name, ourResponse, theirResponse, m.value),
			parseMemory[wire.BinaryRequest, gomemcached.MCRequest]("request"+m.name, request),
			parseMemory[wire.BinaryResponse, gomemcached.MCResponse]("response"+m.name, response),
			parseStream[wire.BinaryRequest, gomemcached.MCRequest]("request"+m.name, request),
			parseStream[wire.BinaryResponse, gomemcached.MCResponse]("response"+m.name, response))
	}
	return all
}

// ourMessage and theirMessage are the encoders of requests and responses.
type ourMessage interface {
	AppendTo(dst []byte) []byte
	AppendHeadTo(dst []byte, valueBytes int) []byte
}

type theirMessage interface {
	Bytes() []byte
	HeaderBytes() []byte
}

// sink receives the results, so that the compiler does not remove the work.
var sink []byte

// encode encodes a message without a large value, because both codecs send a large value without a
// copy.
func encode(name string, ours ourMessage, theirs theirMessage, value []byte) pair {
	isLarge := len(value) > 1000
	return pair{"encode " + name, func(n int) {
		buf := make([]byte, 0, 128)
		for range n {
			if isLarge {
				buf = ours.AppendHeadTo(buf[:0], len(value))
			} else {
				buf = ours.AppendTo(buf[:0])
			}
		}
		sink = buf
	}, func(n int) {
		for range n {
			if isLarge {
				sink = theirs.HeaderBytes()
			} else {
				sink = theirs.Bytes()
			}
		}
	}, 0.2}
}

// endless is a connection that repeats a message.
type endless struct {
	message []byte
	at      int
}

func newEndless(message []byte) *endless {
	return &endless{message: bytes.Repeat(message, 1+(256<<10)/len(message))}
}

func (e *endless) Read(dst []byte) (n int, err error) {
	n = copy(dst, e.message[e.at:])
	if e.at += n; e.at == len(e.message) {
		e.at = 0
	}
	return n, nil
}

// receiver is a message of gomemcached.
type receiver[M any] interface {
	*M
	Receive(r io.Reader, header []byte) (int, error)
}

// parseMemory parses the same bytes again and again.
func parseMemory[O, T any, P interface {
	*O
	wire.Parser
}, R receiver[T]](name string, message []byte) pair {
	ours := func(n int) {
		m := P(new(O))
		for range n {
			_, err := m.Parse(message)
			must(err)
		}
	}
	theirs := func(n int) {
		source, header := bytes.NewReader(message), make([]byte, gomemcached.HDR_LEN)
		m := R(new(T))
		for range n {
			source.Reset(message)
			_, err := m.Receive(source, header)
			must(err)
		}
	}
	return pair{"parse " + name, ours, theirs, 0.3}
}

// parseStream parses messages from a connection that contains many of them.
func parseStream[O, T any, P interface {
	*O
	wire.Parser
}, R receiver[T]](name string, message []byte) pair {
	r, m := wire.NewReader(newEndless(message), 0), P(new(O))
	ours := func(n int) {
		for range n {
			must(r.Read(m))
		}
	}
	buffered, header := bufio.NewReaderSize(newEndless(message), 16<<10), make([]byte, gomemcached.HDR_LEN)
	their := R(new(T))
	theirs := func(n int) {
		for range n {
			_, err := their.Receive(buffered, header)
			must(err)
		}
	}
	return pair{"receive " + name, ours, theirs, 0.3}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// BenchmarkCodecs alternates the codecs within a measurement, so that a change of the machine's
// speed affects both.
func BenchmarkCodecs(b *testing.B) {
	for _, p := range pairs() {
		b.Run(p.name, func(b *testing.B) {
			const turn = 1000
			var ours, theirs time.Duration
			for n := 0; n < b.N; n += turn {
				begin := time.Now()
				p.ours(turn)
				middle := time.Now()
				p.theirs(turn)
				ours, theirs = ours+middle.Sub(begin), theirs+time.Since(middle)
			}
			turns := float64((b.N + turn - 1) / turn * turn)
			b.ReportMetric(float64(ours)/turns, "ours-ns")
			b.ReportMetric(float64(theirs)/turns, "theirs-ns")
			b.ReportMetric(float64(ours)/float64(theirs), "ratio")
			b.ReportMetric(p.most, "target")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// Both codecs write the same bytes.
func TestSameBytes(t *testing.T) {
	ours := wire.BinaryRequest{Opcode: wire.OpSet, CAS: 1, Opaque: 7242, VBucket: 824, Extras: extras, Key: key, Value: small}
	theirs := gomemcached.MCRequest{Opcode: gomemcached.SET, Cas: 1, Opaque: 7242, VBucket: 824, Extras: extras, Key: key, Body: small}
	if a, b := ours.AppendTo(nil), theirs.Bytes(); !slices.Equal(a, b) {
		t.Errorf("AppendTo = % x, want % x", a, b)
	}
	answer := gomemcached.MCResponse{Opcode: gomemcached.SET, Status: 183, Cas: 1, Opaque: 7242, Extras: extras, Key: key, Body: small}
	var parsed wire.BinaryResponse
	if n, err := parsed.Parse(answer.Bytes()); err != nil || n != answer.Size() || fmt.Sprint(parsed.Status) != "status 0x00b7" {
		t.Errorf("Parse = %d, %v with status %v, want %d and status 0x00b7", n, err, parsed.Status, answer.Size())
	}
}
