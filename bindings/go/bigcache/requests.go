package bigcache

import (
	"hash/maphash"
	"sync"
)

// requests counts the requests of each key. Its methods do nothing where it is nil, without StatsEnabled.
type requests struct {
	seed   maphash.Seed
	shards [64]requestShard
	// How many entries there are.
	entries func() int
}

type requestShard struct {
	lock   sync.Mutex
	counts map[uint64]uint32
	// How many keys it may have before somebody looks whether there are as many entries.
	keysMax int
}

const keysMin = 1024

func newRequests(entries func() int) *requests {
	r := &requests{seed: maphash.MakeSeed(), entries: entries}
	for at := range r.shards {
		r.shards[at].counts, r.shards[at].keysMax = make(map[uint64]uint32), keysMin
	}
	return r
}

// in does something with the counts, of which that of a key is at hash.
func (r *requests) withShard(name string, do func(shard *requestShard, hash uint64)) {
	if r == nil {
		return
	}
	hash := maphash.String(r.seed, name)
	shard := &r.shards[hash%uint64(len(r.shards))]
	shard.lock.Lock()
	defer shard.lock.Unlock()
	do(shard, hash)
}

func (r *requests) count(name string) {
	r.withShard(name, func(shard *requestShard, hash uint64) {
		if shard.counts[hash]++; len(shard.counts) > shard.keysMax {
			r.prune(shard)
		}
	})
}

// makeRoom keeps the counts from growing for ever by keys whose removal nobody was told of: where there are many more keys
// than entries all begin anew.
func (r *requests) prune(shard *requestShard) {
	shard.keysMax = max(keysMin, 4*r.entries()/len(r.shards))
	if len(shard.counts) > shard.keysMax {
		clear(shard.counts)
	}
}

func (r *requests) get(name string) (count uint32) {
	r.withShard(name, func(shard *requestShard, hash uint64) { count = shard.counts[hash] })
	return count
}

// take is of, and the count begins anew.
func (r *requests) takeAndReset(name string) (count uint32) {
	r.withShard(name, func(shard *requestShard, hash uint64) {
		count = shard.counts[hash]
		delete(shard.counts, hash)
	})
	return count
}

func (r *requests) reset() {
	if r == nil {
		return
	}
	for at := range r.shards {
		shard := &r.shards[at]
		shard.lock.Lock()
		clear(shard.counts)
		shard.lock.Unlock()
	}
}
