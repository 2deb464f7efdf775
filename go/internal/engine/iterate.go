package engine

import (
	"iter"

	"larder.example/larder/internal/engine/pins"
	"larder.example/larder/internal/engine/shard"
)

// Keys returns the keys with a prefix. Others may use the cache during the loop. Keys returns each
// key that exists during the complete loop exactly once, and may return keys that are stored or
// removed during the loop. It holds a lock only while it collects the few keys of a group, and
// never during the body of the loop.
func (e *Engine) Keys(prefix string) iter.Seq[string] {
	return func(yield func(string) bool) {
		var keys []string
		for number := range e.shards {
			s := &e.shards[number]
			level := s.Level()
			for group := range shard.Groups(level) {
				var ok bool
				if keys, ok = e.keysOfGroup(keys[:0], s, level, group, prefix); !ok {
					return
				}
				for _, key := range keys {
					if !yield(key) {
						return
					}
				}
			}
		}
	}
}

func (e *Engine) keysOfGroup(
	keys []string, s *shard.Shard, level uint64, group int, prefix string,
) ([]string, bool) {
	cell, ok := e.begin()
	if !ok {
		return keys, false
	}
	keys = s.AppendKeys(keys, level, group, prefix)
	e.end(cell, pins.None)
	return keys, true
}

// All returns the keys and copies of the values, as Keys does. This does not count as a read.
func (e *Engine) All() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for key := range e.Keys("") {
			if value, _, ok := e.Peek(nil, key); ok && !yield(key, value) {
				return
			}
		}
	}
}
