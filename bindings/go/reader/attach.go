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
	// watchPause is how often a server's clock is looked at while nobody reads, and left hints are sent.
	watchPause = time.Second
	// A server that is gone is looked for again after a pause, which doubles while there is none.
	pauseMin = 50 * time.Millisecond
	pauseMax = 5 * time.Second
	// unsentBytesMax: so many bytes of hints wait for a server that has been stopped.
	unsentBytesMax = 64 << 10
)

// Attachment reads hits in the memory of a larderd on the same machine, one that was started with -s SOCKET and
// --local-readers. Everything else, misses too, is for the server to answer. Any number of goroutines may use it.
//
//	get ─▶ Attachment.Get ── true ──▶ value; one read of two is told the server later
//	              │
//	              └── false ──▶ ask the server
//
// It keeps a connection to the server, on which it tells what was read, as docs/protocol.md has it, and one goroutine,
// which notices when the server is gone: then nothing is found any more until the server is there again, and if that has
// another memory it is taken. A server that is stopped is believed for three seconds more.
type Attachment struct {
	socket string
	source atomic.Pointer[source]
	// teller is held only by who does not wait.
	hintLock sync.Mutex
	hints    hints
	unsent   []byte
	conn     *net.UnixConn
	raw      syscall.RawConn
	// send is a method value made once, for a new one would be an allocation.
	send func(fd uintptr) bool
	stop context.CancelFunc
	done chan struct{}
}

// served is the memory of a server, and of how many reads one is told.
type source struct {
	region       *Region
	readsPerHint uint32
}

// Attach connects to a server's unix socket and maps its memory. An answer is waited for 5 seconds, or as long as ctx
// allows if that is less; later ctx is of no meaning. Close it in the end.
//
// The error wraps what the system said where nobody accepts connections, [ErrNotPassed] where the server does not let
// this process read (memcached never does), [FieldError] where its memory is laid out in another way, and
// [errors.ErrUnsupported] on systems without such memory: in each case everything can still be asked of the server.
func Attach(ctx context.Context, socket string) (*Attachment, error) {
	a := &Attachment{socket: socket, done: make(chan struct{})}
	a.send = a.sendUnsent
	if err := a.connect(ctx); err != nil {
		return nil, fmt.Errorf("reader: cannot read the memory of the server at %s: %w", socket, err)
	}
	// The caller's values, not the caller's end.
	ctx, a.stop = context.WithCancel(context.WithoutCancel(ctx))
	go a.maintain(ctx)
	return a, nil
}

// Get appends the value of a key to dst. False where it is not in the memory, or that is not to be believed, or the value
// is stale, so that the server must say whose part it is to bring a new one: then ask the server.
//
// Cost: as [Region.Get], and now and then a line for the server, which is not waited for.
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

// GetMany appends the values of all keys that [Attachment.Get] would find to dst, and tells found of each, as
// [Region.GetMany] does. Ask the server for the others.
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

// IsLive says whether hits are found in the server's memory, as things are.
func (a *Attachment) IsLive() bool {
	s := a.source.Load()
	return s != nil && s.region.IsLive()
}

// Identity of the memory that is read; false while there is none. A server that was started anew has another one.
func (a *Attachment) Identity() (Identity, bool) {
	s := a.source.Load()
	if s == nil {
		return Identity{}, false
	}
	return s.region.Identity(), true
}

// ErrReplaced says that another server than the one whose memory is read answers at its socket now.
var ErrReplaced = errors.New("another server is at the socket than the one whose memory is read")

// Confirm asks the socket whose memory it is at this time: nil where it is what is read, [ErrReplaced] where it is not, or
// where just none is read, and else what [Attach] would give. A server that was replaced while it runs on, as larderd is
// by SIGUSR2, is read until its connections end; who has opened another connection to the socket calls this before
// writing to it, and closes the attachment if the result is not nil, so as not to miss its own writes.
//
// Cost: a connection.
func (a *Attachment) Confirm(ctx context.Context) error {
	conn, file, info, err := requestRegion(ctx, a.socket)
	if err != nil {
		return fmt.Errorf("reader: cannot ask the server at %s: %w", a.socket, err)
	}
	closeBoth(conn, file)
	if identity, ok := a.Identity(); !ok || identity != info.identity {
		return fmt.Errorf("reader: %w", ErrReplaced)
	}
	return nil
}

// Close ends the connection and lets go of the memory; nothing is found any more. A second call gives [ErrClosed].
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

// draws is true once in as many calls as reads are told by one, by chance: whoever reads keys in turn shall not tell of
// the same ones all the time.
func (s *source) isSampled() bool { return rand.Uint32N(s.readsPerHint) == 0 }

// note remembers that a key was read, and sends what has been remembered if it is time. It waits for nobody.
func (a *Attachment) recordRead(key []byte) {
	if !a.hintLock.TryLock() {
		return
	}
	if a.hints.push(key) {
		a.sendHints()
	}
	a.hintLock.Unlock()
}

// tell sends hints, as far as the socket takes them. Under the lock.
func (a *Attachment) sendHints() {
	if a.raw == nil {
		a.hints.clear()
		return
	}
	if len(a.unsent) < unsentBytesMax {
		a.unsent = a.hints.moveTo(a.unsent)
	}
	if len(a.unsent) > 0 {
		// Whoever watches the connection sees that it is broken.
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

// connect asks the server for its memory, and reads there from now on.
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

// disconnect reads there no more.
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

// keep watches the server, and connects again when it is gone, until the attachment is closed.
func (a *Attachment) maintain(ctx context.Context) {
	defer close(a.done)
	for ctx.Err() == nil {
		a.watch(ctx)
		a.disconnect()
		a.reconnect(ctx)
	}
	a.disconnect()
}

// watch returns when the server is gone, or its clock stands still. The server says nothing on this connection, so that
// whatever comes is its end.
func (a *Attachment) watch(ctx context.Context) {
	conn, s := a.conn, a.source.Load()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	var byte [1]byte
	for s.region.IsLive() {
		_ = conn.SetReadDeadline(time.Now().Add(watchPause))
		if _, err := conn.Read(byte[:]); !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		a.hintLock.Lock()
		a.sendHints()
		a.hintLock.Unlock()
	}
}

// reconnect tries until there is a server again, or the attachment is closed.
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
