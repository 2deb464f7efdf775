package server

import (
	"sync/atomic"
	"time"
)

// phase is what a connection waits for.
type phase int64

const (
	working phase = iota
	// idle means that the next request has not begun.
	idle
	reading
	writing
	// waiting is for memory.
	waiting
	phaseBits = 3
)

// moment is a phase and the time of its beginning in nanoseconds. A timeout by deadlines of the
// socket would cost each request a change of a timer.
type moment int64

func (m moment) phase() phase { return phase(m & (1<<phaseBits - 1)) }
func (m moment) time() int64  { return int64(m &^ (1<<phaseBits - 1)) }

type atomicMoment struct{ value atomic.Int64 }

func (a *atomicMoment) Load() moment { return moment(a.value.Load()) }
func (a *atomicMoment) Store(now int64, p phase) {
	a.value.Store(now&^(1<<phaseBits-1) | int64(p))
}

// stallTime is the time without a byte sent or taken after which a connection may be closed if the
// memory is full.
const stallTime = time.Second

// tickUntil keeps the time and closes connections that exceed a timeout, until the channel closes.
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
	case reading:
		return options.ReadTimeout > 0 && now-c.began.Load() > int64(options.ReadTimeout)
	case writing:
		return options.WriteTimeout > 0 && now-last.time() > int64(options.WriteTimeout)
	}
	return false
}

// tryHold counts bytes of a connection's buffers against the memory limit, and returns false if
// they exceed it.
func (s *Server) tryHold(c *conn, bytes int) bool {
	if s.held.Add(int64(bytes)) > s.options.MaxMemory {
		s.held.Add(-int64(bytes))
		return false
	}
	c.held.Add(int64(bytes))
	return true
}

// hold is tryHold that waits for memory. It returns false if the connection is to end.
func (s *Server) hold(c *conn, bytes int) bool {
	if s.tryHold(c, bytes) {
		return true
	}
	if int64(bytes) > s.options.MaxMemory {
		return false
	}
	c.activity.Store(s.now.Load(), waiting)
	defer c.activity.Store(s.now.Load(), working)
	for pause := time.Millisecond; !c.isAborted.Load(); pause = min(2*pause, 20*time.Millisecond) {
		s.relieve(int64(bytes))
		time.Sleep(pause)
		if s.tryHold(c, bytes) {
			return true
		}
	}
	return false
}

// relieve closes the largest of the connections that have stalled, unless enough memory becomes
// free by those that were closed before.
func (s *Server) relieve(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var largest *conn
	free := s.options.MaxMemory - s.held.Load()
	for c := range s.conns {
		held := c.held.Load()
		if c.isAborted.Load() {
			free += held
			continue
		}
		last := c.activity.Load()
		hasStalled := last.phase() > idle && s.now.Load()-last.time() >= int64(stallTime)
		if hasStalled && held > 0 && (largest == nil || held > largest.held.Load()) {
			largest = c
		}
	}
	if largest != nil && free < bytes {
		largest.abort()
	}
}
