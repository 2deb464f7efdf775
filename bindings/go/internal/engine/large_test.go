package engine

import (
	"bytes"
	"hash/maphash"
	"testing"
)

// The length of a value has few bits in a header. A longer value is stored in pieces, whatever its
// lower bits.
func TestValuesLongerThanAHeaderCounts(t *testing.T) {
	cache, err := open(Config{CAS: true}, geometry{shards: 1, segments: 256, segmentBytes: 1 << 20}, maphash.MakeSeed())
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	for _, size := range []int{4<<20 + 10, 8<<20 + 10, 16<<20 + 10, 24<<20 + 10} {
		value := bytes.Repeat([]byte("0123456789abcdef-"), size/17+1)[:size]
		if _, err := cache.Set("key", value, 0, 0); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if got, ok := cache.Get("key"); !ok || !bytes.Equal(got, value) {
			t.Errorf("%d bytes: %t, %d bytes", size, ok, len(got))
		}
	}
}
