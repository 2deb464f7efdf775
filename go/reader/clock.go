package reader

import "time"

// firstSecond is the first second of a cache's life.
const firstSecond = 2

// clockDriftSecsMax is the largest difference between the clock in the memory and the system's
// clock. If it is larger, the server has ended, is stopped, or belongs to another boot. The server
// updates its clock every second, so the clock may lag by one second.
const clockDriftSecsMax = 3

// clock counts the seconds since the creation of a cache, as the owner of the cache does. The owner
// uses the system's monotonic clock, which counts from the boot. Reading that clock in Go takes a
// system call, so clock reads it once and then adds the time that has passed by the monotonic clock
// of Go's runtime.
type clock struct {
	// compared is the time at which the two clocks were compared, and nanos is the age of the cache at
	// that time.
	compared time.Time
	nanos    int64
	// monotonicNanos is the system's monotonic clock at that time.
	monotonicNanos int64
}

// clockOf returns the clock of a cache that was created at startSecs of the monotonic clock.
func clockOf(startSecs int64) (clock, error) {
	now, err := monotonicNanos()
	if err != nil {
		return clock{}, err
	}
	// A damaged file may contain any number. Ignore a number outside of this boot.
	if startSecs < 0 || startSecs > now/int64(time.Second) {
		startSecs = now / int64(time.Second)
	}
	return clock{compared: time.Now(), nanos: now - startSecs*int64(time.Second), monotonicNanos: now}, nil
}

// limit is the time until which items may be read, in milliseconds of the monotonic clock and of
// Unix time. The monotonic clock stands still while the machine sleeps. A monotonic time of 0 means
// that items may be read at any time.
type limit struct{ monotonic, unix uint64 }

// isBefore reports whether a limit has not passed.
func (c *clock) isBefore(l limit) bool {
	if l.monotonic == 0 {
		return true
	}
	now := time.Now()
	monotonic := uint64(c.monotonicNanos+int64(now.Sub(c.compared))) / uint64(time.Millisecond)
	return monotonic < l.monotonic && uint64(now.UnixMilli()) < l.unix
}

// second returns the current second.
func (c *clock) second() uint32 {
	return uint32(uint64(c.nanos+int64(time.Since(c.compared)))/uint64(time.Second)) + firstSecond
}
