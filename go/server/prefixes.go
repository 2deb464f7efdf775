package server

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	// prefixEnd ends the prefix of a key, and prefixesMax is the number of prefixes that are counted.
	prefixEnd   = ":"
	prefixesMax = 10000
	// prefixBytesMax limits a dump in the binary protocol, where it is one message.
	prefixBytesMax = 64 << 10
)

// prefixes counts commands by the prefix of their keys while "stats detail" is on. The prefix of a
// key is the part before the first colon.
type prefixes struct {
	isOn   atomic.Bool
	mu     sync.Mutex
	counts map[string]*prefixCounts
}

type prefixCounts struct{ gets, hits, sets, deletes uint64 }

// note counts a command. Keys without prefix are not counted.
func (p *prefixes) note(key string, count prefixCounts) {
	if !p.isOn.Load() {
		return
	}
	prefix, _, hasPrefix := strings.Cut(key, prefixEnd)
	if !hasPrefix {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := p.counts[prefix]
	if counts == nil {
		if len(p.counts) >= prefixesMax {
			return
		}
		if p.counts == nil {
			p.counts = map[string]*prefixCounts{}
		}
		counts = &prefixCounts{}
		// Clone the prefix, because the key is in the buffer of a connection.
		p.counts[strings.Clone(prefix)] = counts
	}
	counts.gets += count.gets
	counts.hits += count.hits
	counts.sets += count.sets
	counts.deletes += count.deletes
}

func (p *prefixes) noteGet(key string, isHit bool) {
	p.note(key, prefixCounts{gets: 1, hits: uint64(one(isHit))})
}

func (p *prefixes) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts = nil
}

// lines returns the counts, by prefix.
func (p *prefixes) lines() (lines []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, prefix := range slices.Sorted(maps.Keys(p.counts)) {
		counts := p.counts[prefix]
		line := []byte("PREFIX " + encodeKey(prefix) + " get")
		line = append(appendUint(line, counts.gets), " hit"...)
		line = append(appendUint(line, counts.hits), " set"...)
		line = append(appendUint(line, counts.sets), " del"...)
		lines = append(lines, string(append(appendUint(line, counts.deletes), "\r\n"...)))
	}
	return lines
}

// textDetail responds to stats detail.
func (c *conn) textDetail(word string) {
	p := &c.server.prefixes
	switch word {
	case "on", "off":
		p.isOn.Store(word == "on")
		c.out = append(c.out, "OK\r\n"...)
	case "dump":
		for _, line := range p.lines() {
			c.stream(line)
		}
		c.out = append(c.out, end...)
	default:
		c.out = append(c.out, "CLIENT_ERROR usage: stats detail on|off|dump\r\n"...)
	}
}

// binaryDetail returns the rows of the group with this name, and false if the group is not about
// prefixes.
func (c *conn) binaryDetail(group string) (rows []row, isDetail bool) {
	p := &c.server.prefixes
	switch group {
	case "detail on", "detail off":
		p.isOn.Store(group == "detail on")
	case "detail dump":
		var text strings.Builder
		for _, line := range p.lines() {
			if text.Len()+len(line) > prefixBytesMax {
				break
			}
			text.WriteString(line)
		}
		return []row{{"detailed", text.String() + end}}, true
	default:
		return nil, false
	}
	return nil, true
}

// stream appends a line of a response that may be too long for the output buffer. It sends the
// previous lines when they fill the buffer.
func (c *conn) stream(line string) {
	if !c.isBroken {
		c.out = append(c.out, line...)
	}
	if len(c.out) >= freeBytes-1024 {
		c.flush()
	}
}
