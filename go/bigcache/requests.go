package bigcache

import (
	"hash/maphash"
	"sync"
	"weak"

	"larder.example/larder"
)

// requests counts the requests of each key. A nil value, without StatsEnabled, counts nothing.
type requests struct {
	seed   maphash.Seed
	shards [64]requestShard
	// The cache whose requests these are.
	cache weak.Pointer[larder.Cache]
}

type requestShard struct {
	lock   sync.Mutex
	counts map[uint64]uint32
	// If a shard has at least this number of keys, prune compares it with the number of entries.
	keysMax int
}

const keysMin = 1024

func newRequests() *requests {
	r := &requests{seed: maphash.MakeSeed()}
	for at := range r.shards {
		r.shards[at].counts, r.shards[at].keysMax = make(map[uint64]uint32), keysMin
	}
	return r
}

// countEntriesOf sets the cache, before its first request.
func (r *requests) countEntriesOf(cache *larder.Cache) {
	if r != nil {
		r.cache = weak.Make(cache)
	}
}

// withShard calls do with the shard and the hash of a key, under the shard's lock.
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

// prune limits the number of counts that remain after the removal of their entries: it resets a
// shard that has many more keys than entries.
func (r *requests) prune(shard *requestShard) {
	entries := 0
	if cache := r.cache.Value(); cache != nil {
		entries = cache.Len()
	}
	shard.keysMax = max(keysMin, 4*entries/len(r.shards))
	if len(shard.counts) > shard.keysMax {
		clear(shard.counts)
	}
}

func (r *requests) get(name string) (count uint32) {
	r.withShard(name, func(shard *requestShard, hash uint64) { count = shard.counts[hash] })
	return count
}

// takeAndReset returns the count of a key and resets it.
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
