package server

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	"larder.example/larder/internal/testserver"
)

// recaching are conversations about recache tokens, stale items and the tokens that clients choose.
// Conversations that need more than memcached 1.6.18 are marked ofLarderd.
var recaching = []string{
	"mg n N30 v t\r\nmg n N30 v t\r\nget n\r\nms n 1 T100\r\nx\r\nmg n N30 v\r\nmg n R30\r\nmg n R200\r\nmg n R200\r\n",
	"mg a N30 T60 t\r\nmg b T60 N30 t\r\nmg c t N30 s f h\r\nmg c q\r\nmg d N30 q k O1\r\nmg e R30 q\r\nmg e R30 k O2\r\nmg e N-1 t\r\nmg e\r\n",
	"set a 5 100 1\r\nx\r\nmd a I\r\nget a\r\nmg a f v t\r\nmg a\r\ntouch a 50\r\nmg a\r\ngat 50 a\r\nmg a T60 t\r\nset a 0 0 1\r\ny\r\nmg a\r\n",
	"set a 5 0 1\r\nx\r\nmd a I T30 q\r\nmg a t f\r\nmd a I C99999999999\r\nmd a I k O1\r\nmg a\r\nmd none I\r\nmd none I q\r\nmd a I T-1\r\nmg a\r\n",
	"ms a 1 T100\r\nx\r\nms a 1 I C1 F9 T5\r\nz\r\nmg a v t f\r\nmg a\r\nms a 2 I C1\r\nzz\r\nmg a v\r\nms a 1 I C" + farToken + "\r\ny\r\nms a 1 I\r\nw\r\nmg a v t\r\n",
	"ms a 1 T100\r\nx\r\nms a 1 I C1 MA\r\ny\r\nms a 1 I C1 ME\r\ny\r\nms a 1 I C1 MR F9\r\nz\r\nmg a v t f\r\nms b 1 I C1\r\nx\r\nms b 1 I C1 MR\r\nx\r\nms b 1 I MP\r\nx\r\n",
	"set a 0 0 1\r\nx\r\nmg a R2592000\r\nms a 1 T100\r\nx\r\nmg a T0 R200\r\nmg a R200 T100\r\nmg a T100 R50\r\nmg a R0\r\nmg a R-1\r\nmg a R200 q k\r\nmg a R200 u v\r\n",
	"set a 0 0 1\r\nx\r\nmd a I\r\nadd a 0 0 1\r\ny\r\nmg a u\r\nmg a u h\r\nappend a 0 0 1\r\ny\r\nmg a v\r\nmd a I\r\nreplace a 0 0 1 noreply\r\nz\r\nmg a v\r\n",
	"mg a N30 R30 v k\r\nmg a R200 v\r\nmd a I\r\nmg a N30 R200 q v s\r\nmg a N30 R200 q v s\r\ndelete a\r\nmg a N30 q v\r\ndelete a noreply\r\nmg a\r\n",
	"mg z R N\r\nmg z Nx\r\nmg z Rx\r\nmg z N30 N30\r\nmg z R30 R30\r\nmd z I I\r\nms z 1 I I\r\nx\r\nmg z N\r\nmg z N30 Rx\r\nmg z\r\nms z 1 Nx\r\nx\r\nma z N\r\n",
	"set a 0 100 20000\r\n" + strings.Repeat("w", 20000) + "\r\nmd a I\r\nmg a s\r\nmg a R200 s\r\nms a 20001 I C1\r\n" +
		strings.Repeat("x", 20001) + "\r\nmg a s\r\nmd a I\r\nmg a v s\r\nmg a v s\r\ngat 0 a\r\nmg a N30 s\r\n",
	"set \xff\x80 0 0 1\r\nx\r\nmd \xff\x80 I\r\nmg \xff\x80 k v\r\nmg \xff k N30 v O\xfe\r\nmg //8= b N30\r\nms \xff 1 I\r\n\xff\r\nmg \xff v\r\n",
	"set a +5 +0 1\r\nx\r\nset b +1 +100 1 noreply\r\ny\r\nget a b\r\n",
}

// ofMemcached is a conversation in which memcached returns a time to live between N and T, while
// larderd returns the last one.
var ofMemcached = []string{
	"ma a t N30\r\nma a t T60\r\nma a t\r\nma a T30 t\r\nma b N30 T0 t\r\nmg b t\r\nma c T0 N30 t\r\nmg c t\r\nma d N30 t T0\r\nmg d t\r\nma e t T60 N0\r\nmg e t\r\n",
	"mg a t N30 T0\r\nmg a t\r\nmg b t T0 N30\r\nmg b t\r\nmg c T30 t N0\r\nmg c t\r\nmg d T0 t N30\r\nmg d t\r\n",
}

// bigToken is more than any token that this server chooses in a test; after a client has chosen it,
// larderd chooses larger tokens. farToken is the largest token.
const (
	bigToken = "1000000000000000"
	farToken = "18446744073709551615"
)

var ofLarderd = []string{
	// Lines of memcached 1.6.18 may be short, and it parses a value as a line after some errors.
	"ms a 1 I\r\n\r\nmg a v\r\nms a 3 I\r\nx\r\nmn\r\nms a I\r\nmn\r\nms a\r\nms a -1 I\r\nmg\r\nmd I\r\nmg I\r\nmg a v\r\n",
	"set a ++1 0 1\r\n\r\nset a +-1 0 1\r\n\r\nset a 0 -+1 1\r\n\r\nset a + 0 1\r\n\r\n",
	// memcached 1.6.18 shows the decoded key of an item that it has created.
	"mg YQ== b N30 k v\r\nmg a v\r\nmg YQ== b k R9\r\nmd YQ== b I k\r\nmg YQ== b k v\r\nms YQ== 1 b I C1 k\r\nx\r\nmg a k v\r\nmg " +
		strings.Repeat("YWFh", 84) + " b N30\r\nmg " + strings.Repeat("k", 251) + " N30\r\nmg " + strings.Repeat("k", 250) + " N30 k\r\n",
	"ma n N0 E" + bigToken + " c\r\nma n C" + bigToken + " E7 c v\r\nma n C7 c" + " E9\r\nma n C8\r\nma n q E11\r\nmg n c\r\n",
	"ms k 1 E" + bigToken + " c\r\nx\r\nms k 1 C" + bigToken + " E5 c\r\ny\r\nms k 1 C5 E6 c s MA\r\nz\r\nmg k c v\r\nms k 1 ME E9 c\r\nx\r\nms j 1 ME E9 c\r\nx\r\n",
	"ms k 1 E50\r\nx\r\nms k 1 I C49 E51 c\r\nold\r\nms k 1 I C49 E51 c\r\ny\r\nmg k c v\r\nms k 1 I C51 E52 c T9\r\nz\r\nmg k c v\r\nms k 1 I C53\r\nz\r\nmg k c\r\n",
	"mg k N30 E77 c\r\nmg k E78 c\r\nmd k C77 I E79\r\nmg k c\r\nmg k c T60 E5\r\nmd k C79 E5\r\nmg k\r\nmd k E5\r\nmd k I E5\r\n",
	"set k 5 100 5\r\nvalue\r\nmd k x\r\nmg k v f t\r\nmd k x I T50 E4\r\nmg k s t c\r\nmd k x q\r\nmg k\r\nmd none x\r\nmd none x q\r\nmd k x C5\r\nget k\r\n",
	"ms n 1 MA N30\r\nx\r\nmg n v t\r\nms n 1 MP N30 E9 c s\r\ny\r\nms m 1 MP N0 E9 c s\r\ny\r\nmg m v c t\r\nms n 1 MA C8\r\nz\r\nms m 1 MA C9 E10 c\r\nz\r\n",
	"set a 0 0 1\r\n5\r\nmd a I\r\nincr a 1\r\nmg a v\r\nma a\r\nmg a v\r\nma a D20 T100 v t\r\nmg a v\r\nmd a I\r\ndecr a 30\r\nmg a v\r\n",
	"md k E1 E1\r\nma k E1 E1\r\nms k 1 E1 E1\r\nx\r\nmg k E1 E1\r\nmg k E\r\nmg k Ex\r\nma k E\r\nmd k Ex\r\nms k 1 E-1\r\nx\r\nms k 1 E99999999999999999999\r\nx\r\nmg k\r\n",
	"incr a +5\r\nset a 0 0 1\r\n5\r\nincr a +5\r\ndecr a +1\r\ntouch a +5\r\nms a 1 F+5\r\nx\r\nms a 1 T+5\r\nx\r\nma a D+5\r\nflush_all +0\r\nset a 0 0 +1\r\ncas a 0 0 1 +1\r\nx\r\n",
	"mg a C9 v\r\nms a 1 E9\r\nx\r\nmg a C9 v\r\nmg a C8 v\r\nmg a C9 v N30 R30 k\r\nmd a I E10\r\nmg a C10 v s\r\nmg a C10 v s q\r\n",
}

// shutDoors is a conversation with commands to which this server responds like a memcached that was
// started without the options for them.
const shutDoors = "shutdown\r\nshutdown graceful\r\nshutdown g\r\nshutdown x\r\nlru_crawler\r\nslabs\r\nlru mode x\r\nslabs nothing\r\nstats nothing\r\n"

// recacheConversation returns random commands with these flags. With isLarderd it also uses flags
// that memcached 1.6.18 does not have, and flags whose result in memcached depends on the requests
// that hold an item.
func recacheConversation(random *rand.Rand, isLarderd bool) string {
	var text strings.Builder
	pick := func(words ...string) string { return words[random.Intn(len(words))] }
	for range 40 {
		key, value := pick("a", "b"), pick("", "7", "word", strings.Repeat("x", random.Intn(3000)))
		exptime, noreply := pick("0", "100", "-1"), pick("", "", " noreply")
		gets := []string{"", "v", "s v f k", "N30 v", "N0 s", "N30 q", "R30", "R200 v t", "R2000 q k", "N30 R200 v O1",
			"T100 t", "T100 N30 s t", "N30 T0 v t", "u", "u v", "R200 u", "N30 u s", "q v", "Nx", "R200 T0", "T0 R200", "C1 v N30"}
		sets := []string{"", "I", "I C1 F3", "I C" + farToken, "C1", "MA I C1", "ME I", "MR I C1", "T100", "T100 q", "I q", "MP I q", "I C1 q O1 k"}
		deletes := []string{"", "I", "I T30", "I q", "I C1", "I k O1", "q", "I T-1", "T30", "I Tx"}
		kinds := 8
		if isLarderd {
			gets = append(gets, "N30 E5"+bigToken, "E5 s", "C5"+bigToken+" v")
			sets = append(sets, "E5"+bigToken+" c", "E9"+bigToken+" c", "C5"+bigToken, "MA N30 s", "MP N0 s",
				"MA C5"+bigToken+" E9"+bigToken, "ME E9"+bigToken+" q", "MR E5"+bigToken+" c", "C5"+bigToken+" E9"+bigToken+" c")
			deletes = append(deletes, "x", "x I", "x T100", "I E5"+bigToken, "C5"+bigToken, "x I C5"+bigToken, "I E9"+bigToken+" q")
			kinds = 11
		}
		switch random.Intn(kinds) {
		case 0, 1, 2:
			fmt.Fprintf(&text, "mg %s %s\r\n", key, pick(gets...))
		case 3:
			fmt.Fprintf(&text, "ms %s %d %s\r\n%s\r\n", key, len(value), pick(sets...), value)
		case 4, 5:
			fmt.Fprintf(&text, "md %s %s\r\n", key, pick(deletes...))
		case 6:
			fmt.Fprintf(&text, "%s %s 0 %s %d%s\r\n%s\r\n", pick("set", "add", "replace", "append", "prepend"), key, exptime, len(value), noreply, value)
		case 7:
			text.WriteString(pick("get a b\r\n", "gat 100 a\r\n", "gat 0 b a\r\n", "touch a 0\r\n", "touch b 100 noreply\r\n", "delete a\r\n", "mn\r\n"))
		case 8:
			fmt.Fprintf(&text, "%s %s 1%s\r\n", pick("incr", "decr"), key, noreply)
		default:
			fmt.Fprintf(&text, "ma %s %s\r\n", key, pick("", "v", "N0 J5 v", "MD D0 v", "T100 t v", "q", "N30 E5"+bigToken+" c"))
		}
	}
	return text.String()
}

// seeded makes the tokens of the keys of these tests larger than 1.
var seeded = strings.Repeat("set a 0 0 0\r\n\r\nset b 0 0 0\r\n\r\nset k 0 0 0\r\n\r\n", 3)

func TestRecachesLikeMemcached(t *testing.T) {
	memcached := testserver.Start(t, "memcached", "-o", "no_lru_maintainer,no_lru_crawler")
	_, larder := start(t, withTokens())
	compare(t, memcached, larder, seeded, 9)
	seed := time.Now().UnixNano()
	random := rand.New(rand.NewSource(seed))
	t.Logf("seed %d", seed)
	for _, requests := range append(recaching, ofMemcached...) {
		compare(t, memcached, larder, requests, 1+random.Intn(100))
	}
	for range 150 {
		compare(t, memcached, larder, recacheConversation(random, false), 1+random.Intn(200))
	}
}

func TestRecachesLikeLarderd(t *testing.T) {
	larderd := testserver.Start(t, "larderd")
	_, larder := start(t, withTokens())
	compare(t, larderd, larder, seeded, 9)
	seed := time.Now().UnixNano()
	random := rand.New(rand.NewSource(seed))
	t.Logf("seed %d", seed)
	for _, requests := range append(append([]string{shutDoors}, recaching...), ofLarderd...) {
		compare(t, larderd, larder, requests, 1+random.Intn(100))
	}
	for range 150 {
		compare(t, larderd, larder, recacheConversation(random, true), 1+random.Intn(200))
	}
}

// If many clients read an item at the same time, one of them wins the recache token.
func TestOneClientWins(t *testing.T) {
	_, socket := start(t, withTokens())
	setup := dial(t, socket)
	conns := connect(t, socket, 30)
	for _, asks := range []struct{ before, request string }{
		{"ms a 1 T100\r\nx\r\nmd a I\r\n", "mg a s\r\n"}, {"ms a 1 T100\r\nx\r\nmn\r\n", "mg a R200 s\r\n"},
		{"md a\r\nmn\r\n", "mg a N30 s\r\n"}, {"ms a 1 T100\r\nx\r\nmd a I\r\n", "mg a u T90\r\n"},
		{"ms a 20000 T100\r\n" + repeated(20000) + "\r\nmd a I\r\n", "mg a v\r\n"},
	} {
		for range 20 {
			lines(t, setup, strings.TrimSuffix(asks.before, "\r\n"))
			answers := make(chan string, len(conns))
			for _, conn := range conns {
				go func() { answers <- lines(t, conn, strings.TrimSuffix(asks.request, "\r\n")) }()
			}
			won, held := 0, 0
			for range conns {
				line, _, _ := strings.Cut(<-answers, "\r\n")
				if strings.HasSuffix(line, " W") {
					won++
				} else if strings.Contains(line, " Z") {
					held++
				}
			}
			if won != 1 || held != len(conns)-1 {
				t.Fatalf("%q: %d clients get the token, %d see that it is taken", asks.request, won, held)
			}
		}
	}
}
