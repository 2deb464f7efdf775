package server

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"
)

// phase is the state of a connection: whether it is executing a request (working), or what it waits
// for.
type phase int64

const (
	working phase = iota
	// idle means that the connection waits for the first byte of a request.
	idle
	// reading means that it waits for the rest of a line or of a header, filling for the rest of a
	// value, and skipping for the rest of a value that the server ignores.
	reading
	filling
	skipping
	writing
	// waiting means that it waits for memory, and writing that it waits for the client to read.
	waiting
	phaseBits = 3
)

// moment is a phase and the time in nanoseconds at which it began. A goroutine compares the moments
// of all connections with the timeouts at regular intervals. Deadlines of the sockets would be
// simpler, but each request would then have to change a timer.
type moment int64

func (m moment) phase() phase { return phase(m & (1<<phaseBits - 1)) }
func (m moment) time() int64  { return int64(m &^ (1<<phaseBits - 1)) }

type atomicMoment struct{ value atomic.Int64 }

func (a *atomicMoment) Load() moment { return moment(a.value.Load()) }
func (a *atomicMoment) Store(now int64, p phase) {
	a.value.Store(now&^(1<<phaseBits-1) | int64(p))
}

// stallTime is the time after which the server may close a connection, when the memory is full,
// because its client has neither sent nor read a byte.
const stallTime = time.Second

// tickUntil updates the time of the server at each tick, and closes connections that exceed a
// timeout. It returns when the channel is closed.
func (s *Server) tickUntil(stop chan struct{}) {
	ticker := time.NewTicker(s.options.tick())
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		now := int64(time.Since(s.started))
		s.now.Store(now)
		s.mu.Lock()
		for c := range s.conns {
			if c.isLate(now) {
				c.abort()
			}
		}
		s.mu.Unlock()
	}
}

// isLate returns true if a connection exceeds a timeout.
func (c *conn) isLate(now int64) bool {
	last := c.activity.Load()
	options := &c.server.options
	switch last.phase() {
	case idle:
		return options.IdleTimeout > 0 && now-last.time() > int64(options.IdleTimeout)
	case reading, filling, skipping:
		return options.ReadTimeout > 0 && now-c.began.Load() > int64(options.ReadTimeout)
	case writing, waiting:
		return options.WriteTimeout > 0 && now-last.time() > int64(options.WriteTimeout)
	}
	return false
}

// tryHold counts bytes of a connection's buffers against the memory limit, and returns false if
// they exceed it. A client that has never sent another request after a response may be one that
// does not read responses. The connections of such clients share half of the memory, and leave the
// other half to other clients.
func (s *Server) tryHold(c *conn, bytes int) bool {
	limit := s.options.MaxMemory
	if !c.hasTaken {
		limit /= 2
	}
	if s.held.Add(int64(bytes)) > limit {
		s.held.Add(-int64(bytes))
		return false
	}
	c.held.Add(int64(bytes))
	return true
}

// hold is like tryHold, but waits for memory. It returns false if the connection must end.
func (s *Server) hold(c *conn, bytes int) bool {
	if s.tryHold(c, bytes) {
		return true
	}
	if int64(bytes) > s.options.MaxMemory/2 {
		return false
	}
	s.wanted.Add(int64(bytes))
	defer s.wanted.Add(-int64(bytes))
	c.activity.Store(s.now.Load(), waiting)
	for pause := time.Millisecond; !c.isAborted.Load(); pause = min(2*pause, 50*time.Millisecond) {
		s.relieve()
		time.Sleep(pause)
		if s.tryHold(c, bytes) {
			c.activity.Store(s.now.Load(), working)
			return true
		}
	}
	return false
}

// relieve closes connections that have stalled, the largest first, until enough memory is free for
// the connections that wait for it.
func (s *Server) relieve() {
	now, last := int64(time.Since(s.started)), s.relieved.Load()
	if now-last < int64(10*time.Millisecond) || !s.relieved.CompareAndSwap(last, now) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	free := s.options.MaxMemory/2 - s.held.Load()
	var stalled []*conn
	for c := range s.conns {
		last := c.activity.Load()
		switch {
		case c.isAborted.Load():
			free += c.held.Load()
		case last.phase() > idle && now-last.time() >= int64(stallTime) && c.held.Load() > 0:
			stalled = append(stalled, c)
		}
	}
	slices.SortFunc(stalled, func(a, b *conn) int { return cmp.Compare(b.held.Load(), a.held.Load()) })
	for _, c := range stalled {
		if free >= s.wanted.Load() {
			break
		}
		free += c.held.Load()
		c.abort()
	}
}
