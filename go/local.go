package larder

import (
	"context"
	"iter"
	"time"
)

// Local is a cache on this machine: that of [Open], or that of package larder/shared. A program
// that works on it moves from one to the other by changing the line that opens.
//
// The methods mean the same in both, and so do fields with the same name in their options. They
// differ in this:
//
//   - A time to live is rounded up to milliseconds in the process, and to seconds in a shared
//     cache. No item expires early.
//   - OnRemove of a cache in the process is called by the goroutine that removes the item, which
//     waits for it. That of a shared cache has its own goroutine, and a queue that drops and
//     counts what does not fit, and reports only what this process removes.
//   - Without ItemMax, the limit depends on Memory in the process, and is almost 1 MiB in a shared
//     cache.
//   - A shared cache with a Sweep sweeps every second, and leaves out the segments that are being
//     written.
//   - A read by All counts as a read in a shared cache.
//   - CompareAndSwap with a negative time to live deletes the item that has the token in the
//     process, and is [ErrInvalid] in a shared cache.
type Local interface {
	Get(key string) (value []byte, ok bool)
	GetInto(dst []byte, key string) (value []byte, ok bool)
	GetItem(key string) (value []byte, item Item, ok bool)
	GetMany(keys []string, visit func(at int, value []byte))
	GetAndTouch(key string, ttl time.Duration) (value []byte, ok bool)
	GetOrLoad(ctx context.Context, key string, loader Loader) ([]byte, error)
	Peek(key string) (item Item, valueBytes int, ok bool)
	Contains(key string) bool

	Set(key string, value []byte, ttl time.Duration) error
	Add(key string, value []byte, ttl time.Duration) (bool, error)
	Replace(key string, value []byte, ttl time.Duration) (bool, error)
	Append(key string, part []byte) (bool, error)
	Prepend(key string, part []byte) (bool, error)
	CompareAndSwap(key string, value []byte, ttl time.Duration, cas uint64) (uint64, error)
	Touch(key string, ttl time.Duration) (bool, error)
	Delete(key string) (bool, error)
	Incr(key string, delta uint64) (uint64, error)
	Decr(key string, delta uint64) (uint64, error)

	Keys(prefix string) iter.Seq[string]
	All(prefix string) iter.Seq2[string, []byte]
	RemovePrefix(prefix string) (removed int, err error)
	Len() int
	Clear() error
	Maintain() error
	SetMemory(limit int64) error
	Store() Store
	Close() error
}

var _ Local = (*Cache)(nil)
