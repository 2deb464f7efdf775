package server

import (
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"larder.example/larder/internal/check"
	"larder.example/larder/internal/engine"
	"larder.example/larder/internal/grammar"
	"larder.example/larder/wire"
)

// refusals are commands that this server does not execute, and their responses.
var refusals = map[string]string{
	"shutdown": "SERVER_ERROR: shutdown not enabled\r\n", "shutdown graceful": "SERVER_ERROR: shutdown not enabled\r\n",
	"shutdown g": "SERVER_ERROR: shutdown not enabled\r\n", "shutdown now": "CLIENT_ERROR invalid shutdown mode\r\n",
	"watch": "CLIENT_ERROR watch commands not allowed\r\n", "watch fetchers": "CLIENT_ERROR watch commands not allowed\r\n",
	"slabs reassign 1 2": "CLIENT_ERROR slab reassignment disabled\r\n", "slabs automove 1": "CLIENT_ERROR slab reassignment disabled\r\n",
	"slabs automove ratio 0.5": "CLIENT_ERROR slab reassignment disabled\r\n", "slabs reassign 1": "ERROR\r\n", "slabs": "ERROR\r\n",
	"slabs nothing": "ERROR\r\n", "lru_crawler": "ERROR\r\n", "lru_crawler nothing": "ERROR\r\n", "lru_crawler metadump": "ERROR\r\n",
	"lru_crawler enable": "CLIENT_ERROR lru crawler disabled\r\n", "lru_crawler disable": "CLIENT_ERROR lru crawler disabled\r\n",
	"lru_crawler crawl all": "CLIENT_ERROR lru crawler disabled\r\n", "lru_crawler sleep 100": "CLIENT_ERROR lru crawler disabled\r\n",
	"lru_crawler tocrawl 5": "CLIENT_ERROR lru crawler disabled\r\n", "lru_crawler mgdump 64": "BADCLASS invalid class id\r\n",
	"lru_crawler mgdump 1,x": "BADCLASS invalid class id\r\n", "lru_crawler mgdump 0": "BADCLASS invalid class id\r\n",
	"lru_crawler mgdump ,": "NOTSTARTED no items to crawl\r\n", "lru_crawler metadump all 1": "ERROR\r\n",
	"lru mode flat": "ERROR\r\n", "lru tune 10 20 1 2": "ERROR\r\n", "lru temp_ttl 5": "ERROR\r\n",
	"extstore free_memchunks 1": "ERROR\r\n", "refresh_certs": "ERROR\r\n", "misbehave": "ERROR\r\n", "debugtime p": "ERROR\r\n",
	"debugitem lock k": "ERROR\r\n", "cache_memlimit 7": "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n",
	"cache_memlimit 64": "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n", "cache_memlimit x": "ERROR\r\n",
	"stats detail": "CLIENT_ERROR usage: stats detail on|off|dump\r\n", "stats detail On": "CLIENT_ERROR usage: stats detail on|off|dump\r\n",
	"stats i": "ERROR\r\n", "stats sl": "ERROR\r\n", "stats connss": "ERROR\r\n", "stats extstore": "ERROR\r\n", "stats sizes_enable": "ERROR\r\n",
	"verbosity": grammar.BadFormat, "verbosity x": grammar.BadFormat, "flush_all x": grammar.BadExptime,
}

func TestCommandsThatAreNotCarriedOut(t *testing.T) {
	_, socket := start(t, withTokens())
	conn := dial(t, socket)
	ask(t, conn, "set k 0 0 1\r\nv\r\n", "STORED\r\n")
	for request, want := range refusals {
		ask(t, conn, request+"\r\nmn\r\n", want+"MN\r\n")
		switch command, _, _ := strings.Cut(request, " "); command {
		case "stats", "lru_crawler", "slabs":
		default:
			ask(t, conn, request+" noreply\r\nmn\r\n", "MN\r\n")
		}
	}
	// These commands do not accept noreply.
	ask(t, conn, "slabs automove 1 noreply\r\nslabs reassign 1 2 noreply\r\nlru_crawler enable noreply\r\nlru_crawler mgdump all noreply\r\n",
		strings.Repeat("ERROR\r\n", 3))
	ask(t, conn, "get k\r\n", "VALUE k 0 1\r\nv\r\nEND\r\n")
}

// lines requests a list and returns its lines.
func lines(t *testing.T, conn net.Conn, request string) string {
	t.Helper()
	check.NoError(t, send(conn, []byte(request+"\r\nmn\r\n"), 0))
	var text strings.Builder
	for part := make([]byte, 1<<16); !strings.HasSuffix(text.String(), "MN\r\n"); {
		n, err := conn.Read(part)
		check.NoError(t, err)
		text.Write(part[:n])
	}
	return strings.TrimSuffix(text.String(), "MN\r\n")
}

func TestStatsConnsOverTCP(t *testing.T) {
	cache, err := engine.New(engine.Config{MemoryBytes: 8 << 20})
	check.NoError(t, err)
	defer cache.Close()
	s := newServer(cache, Options{})
	defer s.Close()
	var addresses []string
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("%s: %v", address, err)
			continue
		}
		addresses = append(addresses, listener.Addr().String())
		go func() { _ = s.Serve(listener) }()
	}
	for _, address := range addresses {
		network := "tcp"
		if strings.HasPrefix(address, "[") {
			network = "tcp6"
		}
		conn, err := net.Dial("tcp", address)
		check.NoError(t, err)
		defer conn.Close()
		got := lines(t, conn, "stats conns")
		for _, want := range []string{
			`STAT \d+:addr ` + network + ":" + regexp.QuoteMeta(address) + "\r\nSTAT \\d+:state conn_listening\r\n",
			`STAT (\d+):addr ` + network + ":" + regexp.QuoteMeta(conn.LocalAddr().String()) + `\r\nSTAT \d+:listen_addr ` +
				network + ":" + regexp.QuoteMeta(address) + "\r\nSTAT \\d+:state conn_parse_cmd\r\nSTAT \\d+:secs_since_last_cmd 0\r\n",
		} {
			if !regexp.MustCompile(want).MatchString(got) {
				t.Errorf("stats conns: %s, want %s", got, want)
			}
		}
	}
}

func TestStatsConnsShowsWhatAConnectionWaitsFor(t *testing.T) {
	_, socket := start(t, withTokens())
	conn := dial(t, socket)
	for state, request := range map[string]string{
		"conn_read": "get", "conn_nread": "set k 0 0 10\r\nv", "conn_swallow": "set k 0 0 2000000\r\nv",
	} {
		other := dial(t, socket)
		check.NoError(t, send(other, []byte(request), 0))
		await(t, state, func() bool { return strings.Contains(lines(t, conn, "stats conns"), "state "+state+"\r\n") })
		check.NoError(t, other.Close())
	}
	greedy := dial(t, socket)
	check.NoError(t, send(greedy, []byte("set k 0 0 500000\r\n"+repeated(500000)+"\r\n"), 0))
	go func() { _ = send(greedy, []byte(strings.Repeat("get k\r\n", 100)), 0) }()
	await(t, "a client that does not read", func() bool {
		return strings.Contains(lines(t, conn, "stats co"), "state conn_mwrite\r\n")
	})
}

// The two clocks of the engine tick at different moments.
func TestMetadumpShowsTheExptimeOfTheClient(t *testing.T) {
	var ticks atomic.Int64
	c := withTokens()
	c.engine.Now = func() int64 { return 1000 }
	c.engine.Wall = func() int64 { return 1_800_000_000_000 + ticks.Add(1)%2 }
	_, socket := start(t, c)
	conn := dial(t, socket)
	var requests strings.Builder
	for number := range 10 {
		fmt.Fprintf(&requests, "set key%d 0 2000000000 1 noreply\r\nv\r\n", number)
	}
	lines(t, conn, strings.TrimSuffix(requests.String(), "\r\n"))
	lines(t, conn, "set odd 0 0 1 noreply\r\nv")
	meta := lines(t, conn, "lru_crawler metadump all") + lines(t, conn, "lru_crawler metadump hash")
	if got := strings.Count(meta, " exp=2000000000 "); got != 20 {
		t.Errorf("%d of 20 lines have the exptime: %s", got, meta)
	}
}

func TestDumpsHaveAllItems(t *testing.T) {
	socket, pass := softServer(t)
	conn := dial(t, socket)
	const count = 3000
	var requests strings.Builder
	for number := range count {
		fmt.Fprintf(&requests, "set key%d %d %d 1 noreply\r\nv\r\n", number, number%2, 100*(number%3))
	}
	lines(t, conn, strings.TrimSuffix(requests.String(), "\r\n"))
	odd := wire.BinaryRequest{Opcode: wire.OpSet, Key: []byte("a b\n\xff"), Extras: wire.AppendStoreExtras(nil, 0, 0)}
	converse(t, socket, string((&wire.BinaryRequest{Opcode: wire.OpQuit}).AppendTo(odd.AppendTo(nil))), 0)
	got := lines(t, conn, "lru_crawler mgdump all")
	check.Equal(t, "lines of mgdump", strings.Count(got, "\r\nmg "), count+1)
	if !strings.Contains(got, "mg YSBiCv8= b\r\n") || !strings.HasPrefix(got, "OK\r\n") || !strings.HasSuffix(got, "EN\r\n") {
		t.Errorf("mgdump: %.300s", got)
	}
	meta := lines(t, conn, "lru_crawler metadump hash")
	check.Equal(t, "lines of metadump", strings.Count(meta, "key="), count+1)
	// An item that the server keeps beyond its exptime is shown as its client stored it.
	for _, want := range []string{"key=a%20b%0A%FF exp=-1 ", "key=key0 exp=-1 ", " cls=1 size=64 flags=0 \n"} {
		if !strings.Contains(meta, want) {
			t.Errorf("metadump lacks %q: %.300s", want, meta)
		}
	}
	expiry := regexp.MustCompile(`key=key4 exp=(\d+) la=0 cas=\d+ fetch=no cls=1 size=64 flags=0 \n`).FindStringSubmatch(meta)
	if now := time.Now().Unix(); expiry == nil || expiry[1] < fmt.Sprint(now+90) || expiry[1] > fmt.Sprint(now+101) {
		t.Errorf("key4: %q at %d", expiry, now)
	}
	check.Equal(t, "another class", lines(t, conn, "lru_crawler metadump 2,63"), "OK\r\nEND\r\n")
	pass(250)
	meta = lines(t, conn, "lru_crawler metadump 1,2,1")
	// Half of the items with 100 and with 200 seconds have flags. The items that live for twice their
	// 100 seconds have expired.
	check.Equal(t, "lines after a while", strings.Count(meta, "key="), 1+count/3+count/6)
}

func TestDumpsGoOnBesideOtherClients(t *testing.T) {
	_, socket := start(t, withTokens())
	slow, other := dial(t, socket), dial(t, socket)
	var requests strings.Builder
	for number := range 20000 {
		fmt.Fprintf(&requests, "set %s%d 0 0 1 noreply\r\nv\r\n", repeated(200), number)
	}
	lines(t, other, strings.TrimSuffix(requests.String(), "\r\n"))
	check.NoError(t, send(slow, []byte("lru_crawler metadump all\r\n"), 0))
	for range 20 {
		checkHealthy(t, other)
		time.Sleep(time.Millisecond)
	}
	if got := strings.Count(lines(t, slow, "mn"), "key="); got < 20000 || got > 20001 {
		t.Errorf("%d lines", got)
	}
}

func TestPrefixesAreBounded(t *testing.T) {
	s, socket := start(t, withTokens())
	conn := dial(t, socket)
	ask(t, conn, "stats detail on\r\n", "OK\r\n")
	var requests strings.Builder
	for number := range prefixesMax + 100 {
		fmt.Fprintf(&requests, "delete p%d:x noreply\r\n", number)
	}
	lines(t, conn, strings.TrimSuffix(requests.String(), "\r\n"))
	check.Equal(t, "prefixes", len(s.prefixes.counts), prefixesMax)
	check.Equal(t, "lines", strings.Count(lines(t, conn, "stats detail dump"), "PREFIX p"), prefixesMax)
	// The server continues to count a prefix that it already counts.
	ask(t, conn, "delete p7:y\r\n", "NOT_FOUND\r\n")
	if got := lines(t, conn, "stats detail dump"); !strings.Contains(got, "PREFIX p7 get 0 hit 0 set 0 del 2\r\n") {
		t.Errorf("stats detail dump: %.200s", got)
	}
	dump := (&wire.BinaryRequest{Opcode: wire.OpStat, Key: []byte("detail dump")}).AppendTo(nil)
	var r wire.BinaryResponse
	_, err := r.Parse([]byte(converse(t, socket, string((&wire.BinaryRequest{Opcode: wire.OpQuit}).AppendTo(dump)), 0)))
	check.NoError(t, err)
	if len(r.Value) > prefixBytesMax+10 || len(r.Value) < prefixBytesMax-100 || !strings.HasSuffix(string(r.Value), "del 1\r\nEND\r\n") {
		t.Errorf("%d bytes of stats detail in the binary protocol", len(r.Value))
	}
	check.Equal(t, "stats reset", lines(t, conn, "stats reset\r\nstats detail dump"), "RESET\r\nEND\r\n")
}

// The server also counts the keys of lists, on lines of any length.
func TestPrefixesOfLists(t *testing.T) {
	_, socket := start(t, withTokens())
	conn := dial(t, socket)
	ask(t, conn, "set a:1 0 0 1\r\nv\r\nstats detail on\r\n", "STORED\r\nOK\r\n")
	keys := strings.Repeat(" a:1 a:2", 400)
	lines(t, conn, "get"+keys+"\r\ngets a:1 b:1\r\nget a:1\r\nget a:1\r\ngats 0"+keys)
	lines(t, conn, "set c:1 0 0 2000000\r\n"+repeated(2000000)+"\r\nset c:1 0 0 1 noreply\r\nx\r\nset c:1 0 0 1\r\nxyz")
	check.Equal(t, "stats detail dump", lines(t, conn, "stats detail dump"),
		"PREFIX a get 1603 hit 803 set 0 del 0\r\nPREFIX b get 1 hit 0 set 0 del 0\r\nPREFIX c get 0 hit 0 set 2 del 0\r\nEND\r\n")
}

func TestBinaryStatsDetail(t *testing.T) {
	_, socket := start(t, withTokens())
	stat := func(group string) string {
		return string((&wire.BinaryRequest{Opcode: wire.OpStat, Key: []byte(group)}).AppendTo(nil))
	}
	var requests []byte
	for _, r := range []wire.BinaryRequest{
		{Opcode: wire.OpSet, Key: []byte("a:1"), Extras: wire.AppendStoreExtras(nil, 0, 0)}, {Opcode: wire.OpGet, Key: []byte("a:1")},
		{Opcode: wire.OpGetQ, Key: []byte("a:2")}, {Opcode: wire.OpTouch, Key: []byte("a:1"), Extras: wire.AppendUint32Extras(nil, 0)},
		{Opcode: wire.OpDelete, Key: []byte("a:2")}, {Opcode: wire.OpIncrement, Key: []byte("a:3"), Extras: wire.AppendCountExtras(nil, 1, 1, 0)},
	} {
		requests = r.AppendTo(requests)
	}
	quit := string((&wire.BinaryRequest{Opcode: wire.OpQuit}).AppendTo(nil))
	got := withoutTokens(t, converse(t, socket, stat("detail on")+string(requests)+stat("detail dump")+stat("detail off")+stat("detail")+quit, 0))
	if !strings.Contains(got, `"detailed" "PREFIX a get 3 hit 2 set 1 del 1\r\nEND\r\n"`) || strings.Count(got, "STAT 0 OK") != 4 ||
		strings.Count(got, "STAT 0 Not found") != 1 {
		t.Errorf("responses: %s", got)
	}
}
