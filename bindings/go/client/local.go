package client

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"larder/client/wire"
	"larder/reader"
)

const (
	// attachTimeout is how long a server on this machine is waited for to pass its memory: there is its socket as well.
	attachTimeout = 100 * time.Millisecond
	// A server that does not pass its memory is asked again after a pause, which doubles each time.
	attachPauseMin = time.Second
	attachPauseMax = time.Minute
	// keysAtOnce is for how many values of many the memory is asked at a time.
	keysPerBatch = 16
	// scratchBytesMax: a buffer that has become larger is not kept.
	scratchBytesMax = 1 << 20
)

// local is the memory of a server on this machine, in which hits are found without asking it.
//
// Who writes through a connection has to see it in the memory afterwards, so the two must be of one server. Therefore
// whoever opens a connection compares before using it: see [local.meet].
type local struct {
	socket     string
	attachment atomic.Pointer[reader.Attachment]
	// dueAt is when the server may be asked for its memory, in Unix nanoseconds.
	dueAt atomic.Int64

	// mu is held while the server is asked.
	mu    sync.Mutex
	pause time.Duration
}

// localOf is the memory of a server, and nil where there is none that could be read. A connection that somebody else
// opens may lead anywhere, and who may not be asked without a login or TLS does not pass its memory without.
func (c *Client) localOf(addr net.Addr) *local {
	o := &c.options
	if addr.Network() != "unix" || o.NoLocalReads || c.DialContext != nil || o.TLS != nil || o.Username != "" {
		return nil
	}
	return &local{socket: addr.String(), pause: attachPauseMin}
}

// isDue says whether the server may be asked for its memory now, and that only to one of those who want to know.
func (l *local) isDue() bool {
	if l == nil || l.attachment.Load() != nil {
		return false
	}
	now, at := time.Now().UnixNano(), l.dueAt.Load()
	return now >= at && l.dueAt.CompareAndSwap(at, now+int64(attachPauseMin))
}

// meet is called by whoever has opened a connection, before it is used: the memory must be that of the server at whose
// socket it has just come in. Where there is none yet, it is asked for if that is due. The result says whether the
// memory is another one now, so that older connections are to go.
func (l *local) verify(ctx context.Context, isDue bool, isCurrent func() bool) (changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.attachment.Load(); old != nil {
		confirmCtx, cancel := context.WithTimeout(ctx, attachTimeout)
		err := old.Confirm(confirmCtx)
		cancel()
		if err == nil {
			return false
		}
		l.detach()
		isDue, changed = true, true
	}
	if isDue {
		changed = l.attach(ctx, isCurrent) || changed
	}
	return changed
}

// attach asks the server for its memory. That some servers do not pass theirs is no error. Under the lock.
func (l *local) attach(ctx context.Context, isCurrent func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, attachTimeout)
	defer cancel()
	attachment, err := reader.Attach(ctx, l.socket)
	if err != nil {
		l.dueAt.Store(time.Now().Add(l.pause).UnixNano())
		l.pause = min(2*l.pause, attachPauseMax)
		return false
	}
	l.pause = attachPauseMin
	if !isCurrent() {
		attachment.Close()
		return false
	}
	l.attachment.Store(attachment)
	return true
}

// detach lets go of the memory. Under the lock.
func (l *local) detach() {
	if old := l.attachment.Swap(nil); old != nil {
		old.Close()
	}
}

func (l *local) close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.detach()
	l.dueAt.Store(0)
}

// read finds an item in the memory.
func (l *local) read(ctx context.Context, c *Client, o *operation) *Item {
	key := o.key
	if l == nil {
		return nil
	}
	attachment := l.attachment.Load()
	// Other keys may be there as well; what they mean is for the protocol to say.
	if attachment == nil || wire.NeedsBase64(key) || ctx.Err() != nil {
		return nil
	}
	// Not nil, as no value of a server is.
	value, info, ok := attachment.Get([]byte{}, []byte(key))
	if !ok || len(value) > c.maxValueBytes() {
		return nil
	}
	c.localReads.add(1)
	o.details = Details{TTL: info.TTL, Stale: info.Stale, Local: true}
	return &Item{Key: key, Value: value, Flags: info.Flags, CasID: info.CAS}
}

// scratch holds some keys, and their values until each is copied to a place of its own: who keeps one shall not keep the
// others.
type scratch struct{ keys, values []byte }

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// readMany finds items in the memory, and returns the keys that are to be asked for.
func (l *local) readMany(ctx context.Context, c *Client, keys []string, newItem func() *Item) (rest []string) {
	if l == nil {
		return keys
	}
	attachment := l.attachment.Load()
	if attachment == nil || ctx.Err() != nil {
		return keys
	}
	s := scratches.Get().(*scratch)
	for len(keys) > 0 {
		batch := keys[:min(len(keys), keysPerBatch)]
		keys = keys[len(batch):]
		rest = s.read(c, attachment, batch, rest, newItem)
	}
	if cap(s.values) <= scratchBytesMax {
		scratches.Put(s)
	}
	return rest
}

// read finds items of at most keysAtOnce keys, and appends the other keys to rest.
func (s *scratch) read(c *Client, attachment *reader.Attachment, keys, rest []string, newItem func() *Item) []string {
	var asBytes [keysPerBatch][]byte
	s.keys = s.keys[:0]
	for i, key := range keys {
		// There is nothing under the empty key.
		if !wire.NeedsBase64(key) {
			start := len(s.keys)
			s.keys = append(s.keys, key...)
			asBytes[i] = s.keys[start:]
		}
	}
	var isFound [keysPerBatch]bool
	hits := uint64(0)
	s.values = attachment.GetMany(s.values[:0], asBytes[:len(keys)], func(i int, value []byte, info reader.Info) {
		if len(value) > c.maxValueBytes() {
			return
		}
		*newItem() = Item{Key: keys[i], Value: append([]byte{}, value...), Flags: info.Flags, CasID: info.CAS}
		isFound[i] = true
		hits++
	})
	c.localReads.add(hits)
	for i, key := range keys {
		if !isFound[i] {
			rest = append(rest, key)
		}
	}
	return rest
}

// counter is counted up by many at once, each in one of its parts, so that they do not wait for each other's caches.
type counter [8]struct {
	n atomic.Uint64
	// The rest of a line of the processor's cache.
	_ [56]byte
}

func (c *counter) add(n uint64) { c[rand.Uint32N(uint32(len(c)))].n.Add(n) }

func (c *counter) sum() (sum uint64) {
	for i := range c {
		sum += c[i].n.Load()
	}
	return sum
}
