package larder

import (
	"context"
	"iter"
	"time"
)

// Local is a cache on this machine, opened by [Open] or by package larder/shared. A program that
// works on a Local moves from one kind to the other by changing the line that opens the cache.
//
// The methods mean the same in both, and option fields with the same name mean the same. The
// differences are:
//
//   - A time to live is rounded up to milliseconds in the process, and to seconds in a shared
//     cache. No item expires early.
//   - In the process, the goroutine that removes an item calls OnRemove and waits for it. A shared
//     cache calls OnRemove from a separate goroutine, through a queue. If the queue is full, the
//     cache drops the removal and counts it. It reports only the items that this process removes.
//   - Without ItemMax, the limit depends on Memory in the process, and is almost 1 MiB in a shared
//     cache.
//   - A shared cache with a Sweep sweeps every second, and skips the segments that are being
//     written.
//   - A read by All counts as a read in a shared cache.
//   - CompareAndSwap with a negative time to live deletes the item that has the token in the
//     process, and returns [ErrInvalid] in a shared cache.
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
