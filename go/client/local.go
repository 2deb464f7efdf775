package client

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"larder.example/larder/reader"
	"larder.example/larder/wire"
)

const (
	// The pause before the client requests a server's memory again. It doubles after each refusal, up
	// to the maximum.
	attachPauseMin = time.Second
	attachPauseMax = time.Minute
	// keysPerBatch is the number of keys that one read of the memory looks up.
	keysPerBatch = 16
	// The client does not keep larger buffers.
	scratchBytesMax = 1 << 20
)

// attachTimeout limits the wait for a server's memory. It is short, because without the memory the
// client can still use the socket. Tests wait longer, because their machine may be busy.
var attachTimeout = 100 * time.Millisecond

// local is the memory of a server on this machine, in which the client reads hits directly.
//
// A client must read its own writes, so its connections and the memory must belong to the same
// server. They do not if another server has taken over the socket. The client therefore compares
// every new connection with the memory before its first use: see [local.verify].
type local struct {
	socket     string
	attachment atomic.Pointer[reader.Attachment]
	// dueAt is the earliest time of the next request for the memory, in Unix nanoseconds.
	dueAt atomic.Int64

	// mu is held during requests for the memory.
	mu    sync.Mutex
	pause time.Duration
}

// localOf returns the local of a server, and nil if the client cannot use the server's memory. With
// a custom dialer the address does not show which server the connections reach. A server that
// requires TLS or a login does not share its memory without them. The caller holds mu.
func (c *Client) localOf(addr net.Addr) *local {
	o := &c.options
	if addr.Network() != "unix" || o.NoLocalReads || c.DialContext != nil || o.TLS != nil || c.login != nil {
		return nil
	}
	return &local{socket: addr.String(), pause: attachPauseMin}
}

// isDue reports whether to request the server's memory now. It returns true to one of several
// concurrent callers.
func (l *local) isDue() bool {
	if l == nil || l.attachment.Load() != nil {
		return false
	}
	now, at := time.Now().UnixNano(), l.dueAt.Load()
	return now >= at && l.dueAt.CompareAndSwap(at, now+int64(attachPauseMin))
}

// verify is called after each new connection is opened, before its first use. It checks that the
// memory belongs to the server that now accepts connections at the socket, and otherwise detaches
// the memory and requests the memory of that server. If the client has no memory and isDue is true,
// verify requests it. It reports whether the memory has changed. Then the caller must close all
// older connections, which may belong to another server than the memory.
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

// attach requests the server's memory. A refusal is not an error. The caller holds the lock.
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

// detach releases the memory. The caller holds the lock.
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

// read reads an item in the memory. It returns nil if the memory does not have the item.
func (l *local) read(ctx context.Context, c *Client, o *operation) *Item {
	key := o.key
	if l == nil {
		return nil
	}
	attachment := l.attachment.Load()
	// A key with spaces or control characters may be in the memory, but it is not valid in every
	// protocol. Send the request, so that the protocol decides.
	if attachment == nil || wire.NeedsBase64(key) || ctx.Err() != nil {
		return nil
	}
	// An empty value must not be nil, as with a value from the socket.
	value, info, ok := attachment.Get([]byte{}, []byte(key))
	if !ok || len(value) > c.maxValueBytes() {
		return nil
	}
	c.localReads.add(1)
	o.details = Details{TTL: info.TTL, Stale: info.Stale, Local: true}
	return &Item{Key: key, Value: value, Flags: info.Flags, CasID: info.CAS}
}

// scratch holds the keys and values of a batch. Each item receives a copy of its value, so that a
// program that retains one value does not retain the others.
type scratch struct{ keys, values []byte }

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// readMany reads items in the memory and returns the keys that it does not find.
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

// read reads the items of at most keysPerBatch keys and appends the keys that it does not find to
// rest.
func (s *scratch) read(c *Client, attachment *reader.Attachment, keys, rest []string, newItem func() *Item) []string {
	var asBytes [keysPerBatch][]byte
	s.keys = s.keys[:0]
	for i, key := range keys {
		// The key of an item that must not be read here stays empty: no item has the empty key.
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

// counter is a counter that consists of several parts, to avoid contention on one cache line.
type counter [8]struct {
	n atomic.Uint64
	// Padding to the size of a cache line.
	_ [56]byte
}

func (c *counter) add(n uint64) { c[rand.Uint32N(uint32(len(c)))].n.Add(n) }

func (c *counter) sum() (sum uint64) {
	for i := range c {
		sum += c[i].n.Load()
	}
	return sum
}
