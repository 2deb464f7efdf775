// Package conformance_test tests processes that share a cache: programs in several languages, and
// killed processes.
package conformance_test

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"larder.example/larder/shared"
)

// These values are the same in c/tests/peer.c and crates/larder/examples/peer.rs.
const (
	keys       = 50
	sharedKeys = 7
	meetWait   = 20 * time.Second
)

// peer is one of several processes that use one cache at the same time and check each other's
// writes. After all have started, each peer in every round
//
//   - stores its own key and a shared key,
//   - adds 1 to a shared counter,
//   - reads the shared key and a key of another peer, and checks that the value is complete and
//     belongs to that key and writer.
//
// After all have ended their rounds, each checks that every key of every peer has its last value,
// and that the counter is exact.
type peer struct {
	cache  *shared.Cache
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
				return fmt.Errorf("%s is not %s after %v", other, name, meetWait)
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
			return fmt.Errorf("%s was written by %s, want %s", key, found.writer, other)
		}
	}
	return nil
}

// count adds 1 to the counter, and creates the counter if it does not exist.
func (p *peer) count() error {
	if _, err := p.cache.Incr("count", 1); err != shared.ErrNotFound {
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
				return fmt.Errorf("final value of %s = %+v, want %+v", key, found, last)
			}
		}
	}
	if count, _ := p.cache.Get("count"); string(count) != strconv.Itoa(p.rounds*len(p.all)) {
		return fmt.Errorf("count = %s, want %d", count, p.rounds*len(p.all))
	}
	return nil
}

// entry is the origin of a value: the peer that has written it, and the round in which it did so.
type entry struct {
	writer string
	round  int
}

// store stores a value of the form "writer key round filling checksum".
func store(cache *shared.Cache, key, writer string, round, filling int) error {
	text := fmt.Sprintf("%s %s %d %s", writer, key, round, strings.Repeat("g", filling))
	return cache.Set(key, fmt.Appendf(nil, "%s %016x", text, fnv1a(text)), 0)
}

// read returns the origin of a value, and nil if the key has no value. It returns an error for an
// incomplete value and for the value of another key.
func read(cache *shared.Cache, key string) (*entry, error) {
	value, ok := cache.Get(key)
	if !ok {
		return nil, nil
	}
	text, sum := string(value), ""
	if at := strings.LastIndexByte(text, ' '); at >= 0 {
		text, sum = text[:at], text[at+1:]
	}
	if sum != fmt.Sprintf("%016x", fnv1a(text)) {
		return nil, fmt.Errorf("incomplete value of %s: %q", key, value)
	}
	words := strings.Split(text, " ")
	if len(words) != 4 || words[1] != key {
		return nil, fmt.Errorf("%s has the value of another key: %q", key, value)
	}
	round, err := strconv.Atoi(words[2])
	return &entry{words[0], round}, err
}

func fnv1a(text string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(text))
	return hash.Sum64()
}
