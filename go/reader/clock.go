package reader

import "time"

// firstSecond is the first second of a cache's life.
const firstSecond = 2

// clockDriftSecsMax: if the clock in the memory differs by more from the system's, the server has
// ended, is stopped, or belongs to another boot. The server updates it every second, so it may lag
// by one.
const clockDriftSecsMax = 3

// clock counts the seconds of a cache's life as its owner does: by the system's monotonic clock,
// which counts from the boot. It uses the program's own monotonic clock, which needs no system
// call, and the offset between the two.
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
	// A damaged file may contain any number; one outside of this boot is ignored.
	if startSecs < 0 || startSecs > now/int64(time.Second) {
		startSecs = now / int64(time.Second)
	}
	return clock{compared: time.Now(), nanos: now - startSecs*int64(time.Second)}, nil
}

// second returns the current second.
func (c *clock) second() uint32 {
	return uint32(uint64(c.nanos+int64(time.Since(c.compared)))/uint64(time.Second)) + firstSecond
}
