package bigcache

import "sync"

// requests counts the requests of each key, with StatsEnabled.
type requests struct {
	shards [64]struct {
		lock sync.Mutex
		of   map[uint64]uint32
	}
}

func (r *requests) in(c *BigCache, key string, do func(of map[uint64]uint32, hash uint64)) {
	if !c.config.StatsEnabled {
		return
	}
	hash := c.config.Hasher.Sum64(key)
	shard := &r.shards[hash%uint64(len(r.shards))]
	shard.lock.Lock()
	defer shard.lock.Unlock()
	if shard.of == nil {
		shard.of = make(map[uint64]uint32)
	}
	do(shard.of, hash)
}

func (r *requests) count(c *BigCache, key string) {
	r.in(c, key, func(of map[uint64]uint32, hash uint64) { of[hash]++ })
}

func (r *requests) forget(c *BigCache, key string) {
	r.in(c, key, func(of map[uint64]uint32, hash uint64) { delete(of, hash) })
}

func (r *requests) of(c *BigCache, key string) (count uint32) {
	r.in(c, key, func(of map[uint64]uint32, hash uint64) { count = of[hash] })
	return count
}

func (r *requests) reset() {
	for at := range r.shards {
		shard := &r.shards[at]
		shard.lock.Lock()
		clear(shard.of)
		shard.lock.Unlock()
	}
}
