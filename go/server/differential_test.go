package server

import (
	"fmt"
	"math/rand"
	"regexp"
	"strings"
	"testing"
	"time"

	"larder.example/larder/internal/testserver"
	"larder.example/larder/wire"
)

// curated are conversations of the text and meta protocol to which memcached 1.6.18 and 1.6.45
// respond in the same way.
var curated = []string{
	"get a\r\nset a 5 0 1\r\nx\r\nget a b\r\nadd a 0 0 1\r\ny\r\nreplace a 6 0 1\r\nz\r\nget a a\r\n",
	"delete a\r\ndelete a\r\nincr a 1\r\nset a 0 0 1\r\n9\r\nincr a 1\r\nget a\r\nset a 0 0 1 noreply\r\nx\r\nincr a 1\r\n",
	"cas b 0 0 1 1\r\nx\r\nset b 0 0 0\r\n\r\ncas b 0 0 1 999999\r\nx\r\nreplace c 0 0 1\r\nx\r\nflush_all\r\nget b\r\n",
	"mg a v\r\nms a 1 F5\r\nx\r\nmg a s v f k O1\r\nmg a\r\nmg none q v\r\nms a 1 ME\r\ny\r\nms a 1 MR q\r\nz\r\nmn\r\n",
	"md a\r\nmd a q\r\nmd a O2\r\nma a\r\nma a N0 J13 v\r\nma a v D2\r\nma a\r\nmg YQ== b v\r\nma a q v\r\nms a 1 MX\r\nx\r\nmn\r\n",
	"mg a 1\r\nms a 1 C99999\r\nx\r\nms none 1 C1 O3\r\nx\r\nms a 1\r\nx\r\nma a\r\nmg a v\r\nmn\r\n",
	"set a 0 0 3\r\nabcdefg\r\nset b 0 0 -1\r\nincr a x\r\ntouch a x\r\ntouch a 0\r\ngat 0 a b\r\ngat x a\r\nfetch a\r\n",
	"set a 0 -1 1\r\nx\r\nget a\r\nset a 0 1 1\r\nx\r\nadd a 0 0 1\r\ny\r\nverbosity 0\r\nflush_all 0\r\nflush_all x\r\n",
	"set " + strings.Repeat("k", 250) + " 0 0 1\r\nx\r\nget " + strings.Repeat("k", 250) + "\r\n",
	"set a 4294967295 0 20000\r\n" + strings.Repeat("w", 20000) + "\r\nappend a 0 0 1\r\nx\r\nprepend a 0 0 1\r\ny\r\nget a a a\r\n",
	"delete a 99999999999999999999999\r\ndelete a -99999999999\r\ndelete a 99999999999 noreply\r\ndelete a 0\r\n",
	"set a 0 0 2\r\n5\n\r\nincr a 1\r\nset a 0 0 2\r\n\t5\r\ndecr a 1\r\nset a 0 0 21\r\n                    5\r\nincr a 1\r\n",
	"ms a 1 Tx v v\r\n5\r\nmg a T Z\r\nms a 1 Tx 9\r\n5\r\nma !!!! b\r\nmd !!!! b\r\nms !!!! 1 Tx b\r\n5\r\nms !!!! 1 b F\r\n5\r\n",
	"ma a O" + strings.Repeat("o", 32) + "\r\nmd a O" + strings.Repeat("o", 32) + "\r\nmg a O" + strings.Repeat("o", 32) + " Tx\r\n",
	"set a 0 0 1\r\nx\r\nmd a C0\r\nmd none C0\r\nget a\r\nma n N10 J5 T200 t v\r\nmg n t\r\n",
	"set a 0 0 1100000\r\n" + strings.Repeat("w", 1100000) + "\r\nget a\r\nms a 1100000\r\n" + strings.Repeat("w", 1100000) + "\r\n",
}

// conversation returns random commands.
func conversation(random *rand.Rand) string {
	var text strings.Builder
	pick := func(words ...string) string { return words[random.Intn(len(words))] }
	for range 40 {
		key, value := pick("a", "b", "c"), pick("", "7", "10", "word", strings.Repeat("x", random.Intn(3000)))
		flags, exptime, noreply := pick("0", "1", "4294967295"), pick("0", "0", "100", "-1"), pick("", "", "", " noreply")
		switch random.Intn(12) {
		case 0, 1:
			fmt.Fprintf(&text, "%s %s\r\n", pick("get", "get", "gat 0", "gat 100"), pick("a", "b", "a b c", "c c"))
		case 2, 3:
			fmt.Fprintf(&text, "%s %s %s %s %d%s\r\n%s\r\n",
				pick("set", "add", "replace", "append", "prepend"), key, flags, exptime, len(value), noreply, value)
		case 4:
			// memcached pads a shorter number or not, depending on the references to the item.
			fmt.Fprintf(&text, "incr %s %s%s\r\n", key, pick("1", "5", "0", "x"), noreply)
		case 5:
			fmt.Fprintf(&text, "delete %s%s\r\n", key, noreply)
		case 6:
			fmt.Fprintf(&text, "touch %s %s%s\r\n", key, exptime, noreply)
		case 7:
			fmt.Fprintf(&text, "mg %s %s\r\n", key, pick("v", "s v f k", "q v", "q", "O12 s", "f q k", "v T0", "T-1 s", "w", "v v"))
		case 8:
			fmt.Fprintf(&text, "ms %s %d %s\r\n%s\r\n",
				key, len(value), pick("", "F7", "ME", "MA", "MP", "MR q", "T100 O3", "C1 k", "q", "MX", "Fx"), value)
		case 9:
			fmt.Fprintf(&text, "md %s %s\r\n", key, pick("", "q", "k O1", "C1", "w"))
		case 10:
			fmt.Fprintf(&text, "ma %s %s\r\n", key, pick("", "v", "N0 J5 v", "MD D0 v", "D20 q", "D3 v k", "Dx", "C1"))
		case 11:
			text.WriteString(pick("mn\r\n", "flush_all\r\n", "verbosity 0\r\n", "cas a 0 0 1 1\r\nx\r\n", "set c 0 0 2\r\nlonger\r\n"))
		}
	}
	return text.String()
}

func TestAnswersLikeMemcached(t *testing.T) {
	memcached := testserver.Start(t, "memcached", "-o", "no_lru_maintainer,no_lru_crawler")
	_, larder := start(t, withTokens())
	seed := time.Now().UnixNano()
	random := rand.New(rand.NewSource(seed))
	conversations := append([]string(nil), curated...)
	for range 150 {
		conversations = append(conversations, conversation(random))
	}
	for _, requests := range conversations {
		compare(t, memcached, larder, requests, 1+random.Intn(200))
	}
}

// leftTTL matches a time to live. It is a second less if a clock ticks between two commands.
var leftTTL = regexp.MustCompile(` t\d+`)

// compare sends requests to another server and to ours. It sends them to ours also in pieces.
func compare(t *testing.T, other, larder, requests string, piece int) {
	t.Helper()
	requests = "flush_all\r\n" + requests + "quit\r\n"
	ask := func(socket string, size int) string {
		return leftTTL.ReplaceAllString(converse(t, socket, requests, size), " t#")
	}
	want := ask(other, 0)
	for _, size := range []int{0, 1, piece} {
		if size > 0 && size < 10 && len(requests) > 30000 {
			size = 1000
		}
		got := ask(larder, size)
		if got == want {
			continue
		}
		same := 0
		for same < min(len(got), len(want)) && got[same] == want[same] {
			same++
		}
		from := max(0, same-60)
		t.Fatalf("responses to %.9000q in pieces of %d differ at %d:\n%.120q, the other server's are\n%.120q",
			requests, size, same, got[from:], want[from:])
	}
}

// binaryConversation returns random requests of the binary protocol.
func binaryConversation(random *rand.Rand) (requests []byte) {
	store := wire.AppendStoreExtras(nil, 5, 0)
	for opaque := range uint32(40) {
		r := wire.BinaryRequest{
			Opcode: wire.Opcode(random.Intn(0x25)), Opaque: opaque, Key: []byte{"abc"[random.Intn(3)]},
			CAS: uint64(random.Intn(8)/7) << 60,
		}
		switch loud := r.Opcode.Loud(); loud {
		case wire.OpSet, wire.OpAdd, wire.OpReplace:
			r.Extras, r.Value = store, []byte([]string{"", "7", "12", "word"}[random.Intn(4)])
		case wire.OpAppend, wire.OpPrepend:
			r.Value = []byte("1")
		case wire.OpIncrement, wire.OpDecrement:
			delta := uint64(random.Intn(5))
			if loud == wire.OpDecrement {
				delta = 0
			}
			r.Extras = wire.AppendCountExtras(nil, delta, 9, uint32(random.Intn(2))*wire.ExptimeNoCreate)
		case wire.OpTouch, wire.OpGAT, wire.OpGATK:
			r.Extras = wire.AppendUint32Extras(nil, 100)
		case wire.OpFlush, wire.OpNoOp:
			r.Key = nil
		case wire.OpGet, wire.OpGetK, wire.OpDelete:
		default:
			// The other opcodes end the connection, return statistics, or skip a value in another way.
			continue
		}
		if r.Opcode == 0x1f || r.Opcode == wire.OpVerbosity {
			continue
		}
		requests = r.AppendTo(requests)
	}
	return (&wire.BinaryRequest{Opcode: wire.OpQuit}).AppendTo(requests)
}

// withoutTokens returns responses of the binary protocol with only the presence of tokens.
func withoutTokens(t *testing.T, responses string) string {
	var text strings.Builder
	for rest := []byte(responses); len(rest) > 0; {
		var r wire.BinaryResponse
		n, err := r.Parse(rest)
		if err != nil {
			t.Fatalf("%q: %v", rest, err)
		}
		rest = rest[n:]
		fmt.Fprintf(&text, "%v %d %v %t %q %q %q\n", r.Opcode, r.Opaque, r.Status, r.CAS != 0, r.Extras, r.Key, r.Value)
	}
	return text.String()
}

func TestAnswersLikeMemcachedInBinary(t *testing.T) {
	memcached := testserver.Start(t, "memcached", "-o", "no_lru_maintainer,no_lru_crawler")
	_, larder := start(t, withTokens())
	seed := time.Now().UnixNano()
	random := rand.New(rand.NewSource(seed))
	for range 200 {
		requests := string((&wire.BinaryRequest{Opcode: wire.OpFlush}).AppendTo(nil)) + string(binaryConversation(random))
		want := withoutTokens(t, converse(t, memcached, requests, 0))
		for _, size := range []int{0, 1, 1 + random.Intn(100)} {
			if got := withoutTokens(t, converse(t, larder, requests, size)); got != want {
				t.Fatalf("seed %d: in pieces of %d:\n%s, memcached's responses are\n%s", seed, size, got, want)
			}
		}
	}
}
