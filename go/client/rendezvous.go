package client

import (
	"encoding/binary"
	"math/bits"
	"net"
)

// rendezvous holds the names of the servers, each followed by a hyphen. A key belongs to the server
// with the highest hash, and on a tie to the greater name, as in pymemcache.
type rendezvous []string

func newRendezvous(addrs []net.Addr) rendezvous {
	names := make(rendezvous, len(addrs))
	for i, addr := range addrs {
		names[i] = addr.String() + "-"
	}
	return names
}

func (r rendezvous) pick(key string, tried int) int {
	picked := r.best(key, -1, 0)
	for range tried {
		picked = r.best(key, picked, r.hash(picked, key))
	}
	return picked
}

// best returns the server with the highest hash. If other is not negative, it considers only the
// servers that are ranked lower than the server other.
func (r rendezvous) best(key string, other int, otherHash uint32) int {
	best, bestHash := -1, uint32(0)
	for i := range r {
		hash := r.hash(i, key)
		if other >= 0 && !r.less(i, hash, other, otherHash) {
			continue
		}
		if best < 0 || r.less(best, bestHash, i, hash) {
			best, bestHash = i, hash
		}
	}
	return best
}

// less reports whether server a is ranked lower than server b: by hash, then by name, and for the
// same server twice in the list by position.
func (r rendezvous) less(a int, aHash uint32, b int, bHash uint32) bool {
	switch {
	case aHash != bHash:
		return aHash < bHash
	case r[a] != r[b]:
		return r[a] < r[b]
	}
	return a > b
}

func (r rendezvous) hash(server int, key string) uint32 {
	var buf [512]byte
	return murmur3(append(append(buf[:0], r[server]...), key...))
}

// murmur3 returns the 32-bit MurmurHash3 for x86, with seed 0.
func murmur3(b []byte) uint32 {
	const c1, c2 = 0xcc9e2d51, 0x1b873593
	mix := func(k uint32) uint32 { return bits.RotateLeft32(k*c1, 15) * c2 }
	length := uint32(len(b))
	var h uint32
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h^mix(binary.LittleEndian.Uint32(b)), 13)*5 + 0xe6546b64
	}
	if len(b) > 0 {
		var tail [4]byte
		copy(tail[:], b)
		h ^= mix(binary.LittleEndian.Uint32(tail[:]))
	}
	h ^= length
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return h ^ h>>16
}
