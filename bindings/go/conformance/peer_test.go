// Package conformance_test has processes share a cache: written in several languages, and killed at any time.
package conformance_test

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"larder"
)

// What bindings/c/tests/peer.c and crates/larder/examples/peer.rs agree on with this file.
const (
	keys       = 50
	sharedKeys = 7
	meetWait   = 20 * time.Second
)

// peer is one of several processes that use one cache at the same time and check each other's writes. They wait for each
// other, and then each in every round
//
//   - stores a key of its own and one that all store,
//   - adds 1 to a counter of all,
//   - reads the one that all store, and one of another peer: whose value must be whole, and of that key and writer.
//
// When all are done, each checks that every key of every peer has the value that was stored last, and that nothing was
// lost in counting.
type peer struct {
	cache  *larder.Cache
	self   string
	all    []string
	rounds int
}

func (p *peer) run() error {
	for _, step := range []func() error{
		func() error { return p.meet("ready") },
		p.play,
		func() error { return p.meet("done") },
		p.checkAll,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (p *peer) meet(name string) error {
	if err := store(p.cache, name+":"+p.self, p.self, 0, 0); err != nil {
		return err
	}
	end := time.Now().Add(meetWait)
	for _, other := range p.all {
		for !p.cache.Contains(name + ":" + other) {
			if time.Now().After(end) {
				return fmt.Errorf("%s is not %s", other, name)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

func (p *peer) play() error {
	for round := range p.rounds {
		own := fmt.Sprintf("%s:%d", p.self, round%keys)
		shared := fmt.Sprintf("shared:%d", round%sharedKeys)
		for _, key := range []string{own, shared} {
			if err := store(p.cache, key, p.self, round, round*37%900); err != nil {
				return err
			}
		}
		if err := p.count(); err != nil {
			return err
		}
		if _, err := read(p.cache, shared); err != nil {
			return err
		}
		other := p.all[round%len(p.all)]
		key := fmt.Sprintf("%s:%d", other, round*7%keys)
		if found, err := read(p.cache, key); err != nil {
			return err
		} else if found != nil && found.writer != other {
			return fmt.Errorf("%s has written %s", found.writer, key)
		}
	}
	return nil
}

// count adds 1 to the counter, which whoever comes first makes.
func (p *peer) count() error {
	if _, err := p.cache.Incr("count", 1); err != larder.ErrNotFound {
		return err
	}
	if _, err := p.cache.Add("count", []byte("0"), 0); err != nil {
		return err
	}
	_, err := p.cache.Incr("count", 1)
	return err
}

func (p *peer) checkAll() error {
	for _, other := range p.all {
		for number := range keys {
			key := fmt.Sprintf("%s:%d", other, number)
			last := entry{other, p.rounds - keys + number}
			if found, err := read(p.cache, key); err != nil {
				return err
			} else if found == nil || *found != last {
				return fmt.Errorf("in the end %s has %+v, not %+v", key, found, last)
			}
		}
	}
	if count, _ := p.cache.Get("count"); string(count) != strconv.Itoa(p.rounds*len(p.all)) {
		return fmt.Errorf("%s were counted, not %d", count, p.rounds*len(p.all))
	}
	return nil
}

// entry is what a value says of itself.
type entry struct {
	writer string
	round  int
}

// store stores "writer key round filling checksum".
func store(cache *larder.Cache, key, writer string, round, filling int) error {
	text := fmt.Sprintf("%s %s %d %s", writer, key, round, strings.Repeat("g", filling))
	return cache.Set(key, fmt.Appendf(nil, "%s %016x", text, fnv1a(text)), 0)
}

// read is what the value of a key says of itself, nil where there is none. One that is not whole, or that of another key,
// is an error.
func read(cache *larder.Cache, key string) (*entry, error) {
	value, ok := cache.Get(key)
	if !ok {
		return nil, nil
	}
	text, sum := string(value), ""
	if at := strings.LastIndexByte(text, ' '); at >= 0 {
		text, sum = text[:at], text[at+1:]
	}
	if sum != fmt.Sprintf("%016x", fnv1a(text)) {
		return nil, fmt.Errorf("the value of %s is torn: %q", key, value)
	}
	words := strings.Split(text, " ")
	if len(words) != 4 || words[1] != key {
		return nil, fmt.Errorf("the value of %s is that of another key: %q", key, value)
	}
	round, err := strconv.Atoi(words[2])
	return &entry{words[0], round}, err
}

func fnv1a(text string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(text))
	return hash.Sum64()
}
