package server

import (
	"errors"
	"strings"
	"testing"

	"larder.example/larder/internal/engine"
	"larder.example/larder/internal/grammar"
	"larder.example/larder/wire"
)

// lineFaults are the responses to lines that are not commands.
var lineFaults = []string{
	grammar.BadFormat, grammar.BadChunk, grammar.BadExptime, grammar.BadDelta, grammar.BadUsage, grammar.BadFlag,
	grammar.TwoFlags, grammar.LongOpaque, grammar.BadKeyCode,
}

func isLineFault(response string) bool {
	for _, fault := range lineFaults {
		if strings.HasPrefix(response, fault) {
			return true
		}
	}
	return false
}

// checkGrammar parses the first request in b with package wire, and executes it here. Both must
// find the same request, or the same error.
func checkGrammar(t *testing.T, cache *engine.Engine, b []byte) {
	var request wire.Request
	n, err := request.Parse(b)
	if len(b) == 0 || request.Dialect == wire.Binary || n > grammar.LineMax && request.Text.Verb.Gets() {
		return
	}
	s := newServer(cache, Options{ItemMax: 1 << 20})
	defer s.Close()
	c := s.admit(&scripted{piece: 1})
	defer s.release(c)
	c.in, c.end = b, len(b)
	executed := c.stepText(b)
	response := string(c.out) + string(c.reply)
	taken := executed + int(c.skip)
	isMany := request.Dialect == wire.Text && request.Text.Verb == wire.TextGet
	var wrong *wire.SyntaxError
	switch {
	case errors.Is(err, wire.ErrShort):
		if executed != 0 && response != grammar.TooLarge && response != "" {
			t.Fatalf("%q: wire wants more bytes, server responds %q", b, response)
		}
	case errors.As(err, &wrong) && wrong.Reply == "":
		if !c.isClosing {
			t.Fatalf("%q: wire ends the connection (%v), server does not: %q", b, err, response)
		}
	case errors.As(err, &wrong) && n == 0:
		// On 32 bits, wire ends the connection after its response, where server ignores the value.
		if response != wrong.Reply+"\r\n" {
			t.Fatalf("%q: wire responds %q and ends the connection, server responds %q", b, wrong.Reply, response)
		}
	case err != nil:
		want := wrong.Reply + "\r\n"
		if request.Dialect == wire.Text && request.Text.NoReply {
			want = ""
		}
		if response != want || taken != n {
			t.Fatalf("%q: wire responds %q to %d bytes, server %q to %d", b, want, n, response, taken)
		}
	case c.isClosing != (request.Dialect == wire.Text && request.Text.Verb == wire.TextQuit):
		t.Fatalf("%q: server ends the connection, wire parses a %v command", b, request.Dialect)
	case request.Dialect == wire.Text && request.Text.Verb == wire.TextOther || isMany && taken > n:
	case taken != n || request.Text.Verb != wire.TextStats && isLineFault(response):
		t.Fatalf("%q: wire parses %d bytes without a fault, server responds %q to %d", b, n, response, taken)
	}
}

// FuzzGrammar checks that packages wire and server parse the text and meta protocols in the same
// way.
func FuzzGrammar(f *testing.F) {
	cache, err := engine.New(engine.Config{MemoryBytes: 1 << 20, CAS: true})
	if err != nil {
		f.Fatal(err)
	}
	for _, script := range [][]string{curated, recaching, ofLarderd, ofMemcached} {
		for _, requests := range script {
			// Each line once as the first one.
			for line := range strings.Lines(requests) {
				if len(line) < 300 {
					f.Add([]byte(line + "value\r\n"))
				}
			}
		}
	}
	for _, line := range []string{
		"mn\n", "\r\n", " get k\r\n", "  noreply\r\n", "noreply\r\n", "nonsense noreply\r\n", "GET / HTTP/1.1\r\n",
		"delete k 0 noreply\r\n", "delete k 5\r\n", "delete noreply\r\n", "incr noreply\r\n", "incr k noreply\r\n",
		"touch k noreply\r\n", "touch k -1 noreply\r\n", "gat 1\r\n", "gat x\r\n", "gat x k\r\n", "verbosity\r\n",
		"verbosity 1 noreply\r\n", "flush_all noreply\r\n", "flush_all x noreply\r\n",
		"set k +1 +0 1\r\nv\r\n", "set k +-1 0 1\r\nv\r\n", "set k 0 0 000000000000000000000001\r\nv\r\n",
		"cas k 0 0 1 noreply\r\nv\r\n", "cas k 0 0 1 1 noreply\r\nv\r\n", "set k 0 0 1 a b c d noreply\r\nv\r\n",
		"set k 0 0 1" + strings.Repeat(" x", 20) + " noreply\r\nv\r\n",
		"ms k 1 Mx\r\nv\r\n", "ms k 1 Me\r\nv\r\n", "ma k MX\r\n", "ma k M+\r\n", "mg k Tsoon\r\n", "md k Tsoon\r\n",
		"mg k E1 O" + strings.Repeat("o", 32) + " N\r\n", "mg k" + strings.Repeat(" P L", 12) + "\r\n", "mg a= b\r\n",
		"mn x\r\n", "mnx\r\n", "me k b\r\n", "set k 0 0 2147483646\r\n", "set k 0 0 2147483645\r\n",
		"x" + strings.Repeat(" y", 1100) + "\r\n",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, b []byte) { checkGrammar(t, cache, b) })
}
