package reader

import "time"

// firstSecond is the first second of a cache's life.
const firstSecond = 2

// clockDriftSecsMax is the largest difference between the clock in the memory and the system's
// clock. If it is larger, the server has ended, is stopped, or belongs to another boot. The server
// updates its clock every second, so the clock may lag by one second.
const clockDriftSecsMax = 3

// clock counts the seconds of a cache's life as its owner does, which uses the system's monotonic
// clock. That clock counts from the boot. To avoid a system call, clock reads the program's own
// monotonic clock and adds the offset between the two.
type clock struct {
	compared time.Time
	// nanos is the age of the cache at the time of the comparison.
	nanos int64
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
	return clock{compared: time.Now(), nanos: now - startSecs*int64(time.Second)}, nil
}

// second returns the current second.
func (c *clock) second() uint32 {
	return uint32(uint64(c.nanos+int64(time.Since(c.compared)))/uint64(time.Second)) + firstSecond
}
