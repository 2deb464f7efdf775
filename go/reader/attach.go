package reader

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// watchPause is the interval at which the server's clock is checked and remaining hints are
	// sent.
	watchPause = time.Second
	// The pause between two attempts to attach to a server again. It doubles up to the maximum.
	pauseMin = 50 * time.Millisecond
	pauseMax = 5 * time.Second
	// unsentBytesMax limits the lines of hints that the socket has not accepted yet, in bytes. A
	// stopped server reads none.
	unsentBytesMax = 64 << 10
)

// Attachment reads hits directly from the memory of a larderd on the same machine that was started
// with -s SOCKET and --local-readers. Misses and all other requests go to the server. It is safe
// for concurrent use.
//
//	get ─▶ Attachment.Get ── true ──▶ value; some reads are later reported as hints
//	              │
//	              └── false ──▶ request from the server
//
// It uses one goroutine and a connection to the server, on which it reports reads as hints
// (docs/protocol.md). The goroutine detects the end of the server. Reads then find nothing until
// there is a server again and the goroutine has attached its memory. The memory of a stopped server
// remains readable for three seconds.
type Attachment struct {
	socket string
	source atomic.Pointer[source]
	// hintLock is never held across a blocking call.
	hintLock sync.Mutex
	hints    hints
	unsent   []byte
	conn     *net.UnixConn
	raw      syscall.RawConn
	// send is sendUnsent as a method value; creating it for each call would allocate.
	send func(fd uintptr) bool
	stop context.CancelFunc
	done chan struct{}
}

// source is the memory of a server, and the number of reads per hint: the client reports one read
// in readsPerHint.
type source struct {
	region       *Region
	readsPerHint uint32
}

// Attach connects to a server's unix socket and maps its memory. It waits for a response until ctx
// ends, at most 5 seconds; ctx does not affect the attachment later. The caller closes the
// attachment.
//
// The error wraps the system's error if the socket accepts no connections, [ErrNotShared] if the
// server does not share its memory with this process (memcached never does), [FieldError] if the
// memory has another layout, and [errors.ErrUnsupported] on systems without such memory. In each
// case the socket still serves all requests.
func Attach(ctx context.Context, socket string) (*Attachment, error) {
	a := &Attachment{socket: socket, done: make(chan struct{})}
	a.send = a.sendUnsent
	if err := a.connect(ctx); err != nil {
		return nil, fmt.Errorf("reader: cannot read the memory of the server at %s: %w", socket, err)
	}
	// Keep the values of the caller's context, but neither its deadline nor its cancellation.
	ctx, a.stop = context.WithCancel(context.WithoutCancel(ctx))
	go a.maintain(ctx)
	return a, nil
}

// Get appends the value of a key to dst. It returns false if the key is not in the memory, if the
// server has stopped, or if the value is stale, so that the server decides which client recaches
// it. The caller then requests the key from the server.
//
// Cost: the same as [Region.Get], and occasionally one non-blocking write to the server.
func (a *Attachment) Get(dst, key []byte) (value []byte, info Info, ok bool) {
	s := a.source.Load()
	if s == nil {
		return dst, Info{}, false
	}
	v := s.region.view.Load()
	if v == nil {
		return dst, Info{}, false
	}
	value, info, ok, isHintDue := v.get(dst, key)
	runtime.KeepAlive(v)
	if ok && info.Stale {
		return dst, Info{}, false
	}
	if ok && isHintDue && s.isSampled() {
		a.recordRead(key)
	}
	return value, info, ok
}

// GetMany appends the values of all keys that [Attachment.Get] would find to dst, and calls found
// for each, as [Region.GetMany] does. The caller requests the other keys from the server.
func (a *Attachment) GetMany(dst []byte, keys [][]byte, found func(index int, value []byte, info Info)) []byte {
	s := a.source.Load()
	if s == nil {
		return dst
	}
	v := s.region.view.Load()
	if v == nil {
		return dst
	}
	dst = v.getMany(dst, keys, func(index int, value []byte, info Info, isHintDue bool) {
		if info.Stale {
			return
		}
		if isHintDue && s.isSampled() {
			a.recordRead(keys[index])
		}
		found(index, value, info)
	})
	runtime.KeepAlive(v)
	return dst
}

// IsLive reports whether the attachment currently finds hits.
func (a *Attachment) IsLive() bool {
	s := a.source.Load()
	return s != nil && s.region.IsLive()
}

// Identity returns the identity of the attached memory, and false if no memory is attached. A
// restarted server has another identity.
func (a *Attachment) Identity() (Identity, bool) {
	s := a.source.Load()
	if s == nil {
		return Identity{}, false
	}
	return s.region.Identity(), true
}

// ErrReplaced means that the socket and the attached memory belong to different servers.
var ErrReplaced = errors.New("the socket belongs to another server than the attached memory")

// Confirm checks that the socket belongs to the server of the attached memory. It returns
// [ErrReplaced] if it does not, or if no memory is attached, and otherwise the errors of [Attach].
// A server that is replaced while it runs, as larderd is by SIGUSR2, remains readable until its
// connections end. A client that opens another connection to the socket therefore calls Confirm
// before it writes, and closes the attachment on an error; otherwise it might not read its own
// writes.
//
// Cost: a connection.
func (a *Attachment) Confirm(ctx context.Context) error {
	conn, file, info, err := requestRegion(ctx, a.socket)
	if err != nil {
		return fmt.Errorf("reader: cannot query the server at %s: %w", a.socket, err)
	}
	closeBoth(conn, file)
	if identity, ok := a.Identity(); !ok || identity != info.identity {
		return fmt.Errorf("reader: %w", ErrReplaced)
	}
	return nil
}

// Close ends the connection and releases the memory; reads find nothing afterwards. A second call
// returns [ErrClosed].
func (a *Attachment) Close() error {
	a.hintLock.Lock()
	isFirst := a.stop != nil
	if isFirst {
		a.stop()
		a.stop = nil
	}
	a.hintLock.Unlock()
	<-a.done
	if !isFirst {
		return fmt.Errorf("reader: %w", ErrClosed)
	}
	return nil
}

// isSampled returns true for one read in readsPerHint. It selects the reads at random. If it
// selected every n-th read, a program that reads n keys in a fixed order would always report the
// same key.
func (s *source) isSampled() bool { return rand.Uint32N(s.readsPerHint) == 0 }

// recordRead adds a hint for a key, and sends the hints when there are enough. It does not block:
// if another goroutine holds the lock, it drops the hint.
func (a *Attachment) recordRead(key []byte) {
	if !a.hintLock.TryLock() {
		return
	}
	if a.hints.push(key) {
		a.sendHints()
	}
	a.hintLock.Unlock()
}

// sendHints sends as many hints as the socket accepts. The caller holds the lock.
func (a *Attachment) sendHints() {
	if a.raw == nil {
		a.hints.clear()
		return
	}
	if len(a.unsent) < unsentBytesMax {
		a.unsent = a.hints.moveTo(a.unsent)
	}
	if len(a.unsent) > 0 {
		// Ignore errors: the goroutine in watch detects a broken connection.
		_ = a.raw.Write(a.send)
	}
}

func (a *Attachment) sendUnsent(fd uintptr) bool {
	sent, err := sendSome(fd, a.unsent)
	if err != nil {
		sent = len(a.unsent)
	}
	a.unsent = a.unsent[:copy(a.unsent, a.unsent[sent:])]
	return true
}

// connect requests the server's memory and attaches it.
func (a *Attachment) connect(ctx context.Context) error {
	conn, file, info, err := requestRegion(ctx, a.socket)
	if err != nil {
		return err
	}
	defer file.Close()
	region, err := info.region(file)
	if err != nil {
		_ = conn.Close()
		return err
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		closeBoth(conn, nil)
		_ = region.Close()
		return err
	}
	a.hintLock.Lock()
	a.conn, a.raw, a.unsent = conn, raw, a.unsent[:0]
	a.hints.clear()
	a.hintLock.Unlock()
	a.source.Store(&source{region, info.readsPerHint})
	return nil
}

// disconnect detaches the memory and closes the connection.
func (a *Attachment) disconnect() {
	if s := a.source.Swap(nil); s != nil {
		_ = s.region.Close()
	}
	a.hintLock.Lock()
	conn := a.conn
	a.conn, a.raw = nil, nil
	a.hintLock.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
}

// maintain watches the server and reconnects after its end, until the attachment is closed.
func (a *Attachment) maintain(ctx context.Context) {
	defer close(a.done)
	for ctx.Err() == nil {
		a.watch(ctx)
		a.disconnect()
		a.reconnect(ctx)
	}
	a.disconnect()
}

// watch returns when the server ends or its clock stops. The server sends nothing on this
// connection, so a completed read means that it has ended.
func (a *Attachment) watch(ctx context.Context) {
	conn, s := a.conn, a.source.Load()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	var byte [1]byte
	for s.region.isServed() {
		_ = conn.SetReadDeadline(time.Now().Add(watchPause))
		if _, err := conn.Read(byte[:]); !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		a.hintLock.Lock()
		a.sendHints()
		a.hintLock.Unlock()
	}
}

// reconnect retries until there is a server or the attachment is closed.
func (a *Attachment) reconnect(ctx context.Context) {
	for pause := pauseMin; ctx.Err() == nil; pause = min(2*pause, pauseMax) {
		if a.connect(ctx) == nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}
