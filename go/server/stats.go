package server

import (
	"maps"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"larder.example/larder/internal/engine"
	"larder.example/larder/internal/grammar"
)

// Version is the version that the server returns. It is not the version of Larder but the version
// of the memcached whose responses the server reproduces, because clients derive from it which
// commands they may use.
const Version = "1.6.45"

// counter is one of the counters of a connection.
type counter int

const (
	cmdSet counter = iota
	cmdFlush
	cmdMeta
	getHits
	getMisses
	deleteMisses
	deleteHits
	incrMisses
	incrHits
	decrMisses
	decrHits
	casMisses
	casHits
	casBadval
	touchHits
	touchMisses
	storesTooLarge
	storesNoMemory
	authCommands
	authErrors
	bytesRead
	bytesWritten
	counterCount
)

// counters are the counters of a connection. Only its goroutine adds to them.
type counters [counterCount]atomic.Uint64

func (c *counters) add1(which counter, n int) {
	if n > 0 {
		c[which].Add(uint64(n))
	}
}

func (c *counters) add(other *counters) {
	for at := range c {
		c[at].Add(other[at].Load())
	}
}

// baseline holds the counts at the last "stats reset".
type baseline struct {
	counters           [counterCount]uint64
	engine             engine.Stats
	accepted, rejected uint64
}

// row is a statistic.
type row struct{ name, value string }

// totals returns the counters of all connections. The caller holds mu.
func (s *Server) totals() (totals [counterCount]uint64) {
	for at := range totals {
		totals[at] = s.counters[at].Load()
		for c := range s.conns {
			totals[at] += c.counters[at].Load()
		}
	}
	return totals
}

func (s *Server) resetStats() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prefixes.reset()
	s.baseline = baseline{s.totals(), s.engine.Stats(), s.accepted.Load(), s.rejected.Load()}
}

// stats returns the statistics of a group, and false if the group does not exist.
func (s *Server) stats(group string) (rows []row, isKnown bool) {
	switch group {
	case "":
		return s.generalStats(), true
	case "settings":
		return s.settings(), true
	case "sizes":
		return []row{{"sizes_status", "disabled"}}, true
	case "items":
		// The memory of the cache has no size classes.
		return nil, true
	case "slabs":
		used := s.engine.Stats().UsedBytes
		return []row{{"active_slabs", "0"}, {"total_malloced", strconv.Itoa(used)}}, true
	}
	return nil, false
}

func (s *Server) generalStats() []row {
	cache := s.engine.Stats()
	s.mu.Lock()
	defer s.mu.Unlock()
	counted, base := s.totals(), &s.baseline
	for at := range counted {
		counted[at] -= base.counters[at]
	}
	now := time.Now()
	var rows []row
	add := func(name string, value uint64) {
		rows = append(rows, row{name, strconv.FormatUint(value, 10)})
	}
	add("pid", uint64(os.Getpid()))
	add("uptime", uint64(now.Sub(s.started)/time.Second))
	add("time", uint64(now.Unix()))
	rows = append(rows, row{"version", Version})
	add("pointer_size", strconv.IntSize)
	add("max_connections", uint64(s.options.MaxConns))
	add("curr_connections", uint64(len(s.conns)))
	add("total_connections", s.accepted.Load()-base.accepted)
	add("rejected_connections", s.rejected.Load()-base.rejected)
	add("cmd_get", counted[getHits]+counted[getMisses])
	add("cmd_set", counted[cmdSet])
	add("cmd_flush", counted[cmdFlush])
	add("cmd_touch", counted[touchHits]+counted[touchMisses])
	add("cmd_meta", counted[cmdMeta])
	add("get_hits", counted[getHits])
	add("get_misses", counted[getMisses])
	add("delete_misses", counted[deleteMisses])
	add("delete_hits", counted[deleteHits])
	add("incr_misses", counted[incrMisses])
	add("incr_hits", counted[incrHits])
	add("decr_misses", counted[decrMisses])
	add("decr_hits", counted[decrHits])
	add("cas_misses", counted[casMisses])
	add("cas_hits", counted[casHits])
	add("cas_badval", counted[casBadval])
	add("touch_hits", counted[touchHits])
	add("touch_misses", counted[touchMisses])
	add("store_too_large", counted[storesTooLarge])
	add("store_no_memory", counted[storesNoMemory])
	add("auth_cmds", counted[authCommands])
	add("auth_errors", counted[authErrors])
	add("bytes_read", counted[bytesRead])
	add("bytes_written", counted[bytesWritten])
	add("limit_maxbytes", uint64(cache.MemoryBytes))
	add("accepting_conns", uint64(one(len(s.conns) < s.options.MaxConns)))
	add("threads", uint64(runtime.GOMAXPROCS(0)))
	add("buffer_bytes", uint64(s.held.Load()))
	add("bytes", uint64(cache.LiveBytes))
	add("curr_items", uint64(cache.Items))
	add("total_items", cache.Sets-base.engine.Sets)
	add("evictions", cache.Evictions-base.engine.Evictions)
	add("reclaimed", cache.Expired-base.engine.Expired)
	return rows
}

func (s *Server) settings() []row {
	number := func(value int64) string { return strconv.FormatInt(value, 10) }
	return []row{
		{"maxbytes", number(s.engine.Stats().MemoryBytes)},
		{"maxconns", number(int64(s.options.MaxConns))},
		{"verbosity", number(int64(s.verbosity.Load()))},
		{"evictions", "on"},
		{"num_threads", number(int64(runtime.GOMAXPROCS(0)))},
		{"stat_key_prefix", prefixEnd},
		{"detail_enabled", yesNo(s.prefixes.isOn.Load())},
		{"cas_enabled", yesNo(s.engine.HasTokens())},
		{"auth_enabled_sasl", yesNo(s.options.Auth != nil)},
		{"auth_enabled_ascii", yesNo(s.options.Auth != nil)},
		{"item_size_max", number(int64(s.options.ItemMax))},
		{"maxconns_fast", "yes"},
		{"slab_reassign", "no"},
		{"slab_automove", "0"},
		{"lru_crawler", "no"},
		{"flush_enabled", "yes"},
		{"dump_enabled", "yes"},
		{"lru_maintainer_thread", "no"},
		{"lru_segmented", "no"},
		{"idle_timeout", number(int64(s.options.IdleTimeout / time.Second))},
		{"track_sizes", "no"},
		{"client_flags_size", "4"},
	}
}

// phaseNames are memcached's names of the phases of a connection.
var phaseNames = [...]string{
	working: "conn_parse_cmd", idle: "conn_read", reading: "conn_read", filling: "conn_nread",
	skipping: "conn_swallow", writing: "conn_mwrite", waiting: "conn_waiting",
}

// connStats describes the listeners and the connections.
func (s *Server) connStats() (rows []row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	byNumber := map[uint64][]row{}
	for number, listener := range s.listeners {
		byNumber[number] = []row{
			{"addr", addressOf(listener.Addr())}, {"state", "conn_listening"}, {"secs_since_last_cmd", "0"},
		}
	}
	now := int64(time.Since(s.started))
	for c := range s.conns {
		last := c.activity.Load()
		byNumber[c.number] = []row{
			{"addr", addressOf(c.socket.RemoteAddr())}, {"listen_addr", addressOf(c.socket.LocalAddr())},
			{"state", phaseNames[last.phase()]},
			{"secs_since_last_cmd", strconv.FormatInt(max(now-last.time(), 0)/int64(time.Second), 10)},
		}
	}
	for _, number := range slices.Sorted(maps.Keys(byNumber)) {
		for _, r := range byNumber[number] {
			rows = append(rows, row{strconv.FormatUint(number, 10) + ":" + r.name, r.value})
		}
	}
	return rows
}

// addressOf returns an address as memcached writes it.
func addressOf(address net.Addr) string {
	switch a := address.(type) {
	case *net.TCPAddr:
		if a.IP.To4() == nil {
			return "tcp6:" + a.String()
		}
		return "tcp:" + a.String()
	case *net.UnixAddr:
		// A client's socket has no name.
		if a != nil && a.Name != "" && a.Name != "@" {
			return "unix:" + encodeKey(a.Name)
		}
	case nil:
	default:
		return a.Network() + ":" + encodeKey(a.String())
	}
	return "?:<AF 0>"
}

// textStats responds to stats. A group may be abbreviated where memcached allows that.
func (c *conn) textStats(w *grammar.Words) {
	group := string(w.First[0])
	switch {
	case group == "":
	case strings.HasPrefix("reset", group):
		c.server.resetStats()
		c.out = append(c.out, "RESET\r\n"...)
		return
	case strings.HasPrefix("settings", group):
		group = "settings"
	case strings.HasPrefix("cachedump", group):
		c.cacheDump(w)
		return
	case strings.HasPrefix("detail", group):
		c.textDetail(string(w.First[1]))
		return
	}
	rows, isKnown := c.server.stats(group)
	if strings.HasPrefix("conns", group) && group != "" {
		rows, isKnown = c.server.connStats(), true
	}
	if !isKnown {
		c.out = append(c.out, grammar.Unknown...)
		return
	}
	for _, row := range rows {
		c.stream("STAT " + row.name + " " + row.value + "\r\n")
	}
	c.out = append(c.out, end...)
}
