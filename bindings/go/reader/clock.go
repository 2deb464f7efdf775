package reader

import "time"

// firstSecond is the first second of a cache's life.
const firstSecond = 2

// clockSecsOffMax: where the clock in the memory stands so far from the system's, the server is gone or has been stopped,
// or its time is another. It is moved every second, so that it is a second behind at times.
const clockDriftSecsMax = 3

// clock counts the seconds of a cache's life as its owner does: by the system's monotonic clock, which counts from the
// boot. The program's own clock is the same one, without a system call; what it was when it was compared is kept.
type clock struct {
	compared time.Time
	// nanos is how long the cache had lived then.
	nanos int64
}

// clockOf is the clock of a cache whose first second was begun when the monotonic clock stood at bornSecs.
func clockOf(startSecs int64) (clock, error) {
	now, err := monotonicNanos()
	if err != nil {
		return clock{}, err
	}
	// A file may say anything; what is not from this boot's time is of no second.
	if startSecs < 0 || startSecs > now/int64(time.Second) {
		startSecs = now / int64(time.Second)
	}
	return clock{compared: time.Now(), nanos: now - startSecs*int64(time.Second)}, nil
}

// second is the present one.
func (c *clock) second() uint32 {
	return uint32(uint64(c.nanos+int64(time.Since(c.compared)))/uint64(time.Second)) + firstSecond
}
