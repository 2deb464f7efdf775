package bigcache

import (
	"hash/maphash"
	"sync"
	"weak"

	"larder.example/larder"
)

// requests counts the requests of each key. Without StatsEnabled the pointer is nil, and its
// methods do nothing.
type requests struct {
	seed   maphash.Seed
	shards [64]requestShard
	// cache is the cache whose requests are counted.
	cache weak.Pointer[larder.Cache]
}

type requestShard struct {
	lock   sync.Mutex
	counts map[uint64]uint32
	// keysMax is the number of keys from which on prune compares the shard with the number of entries
	// in the cache.
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

// countEntriesOf sets the cache whose number of entries limits the number of counts. It is called
// before the first request.
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

// prune limits the memory of the counts. A count can remain after its entry was removed, because a
// read may end after the removal. prune resets a shard that has many more counts than it should
// have for the number of entries.
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
