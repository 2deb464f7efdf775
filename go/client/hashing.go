package client

import (
	"fmt"
	"hash/crc32"
	"net"
)

// Hashing selects the distribution of keys to servers.
type Hashing int

const (
	// HashModulo is the distribution of gomemcache: CRC-32 of the key modulo the number of servers.
	// Adding or removing a server moves nearly all keys.
	HashModulo Hashing = iota
	// HashKetama is libmemcached's MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED with MD5, which PHP calls
	// OPT_LIBKETAMA_COMPATIBLE: 160 points on a circle per server of average weight. Adding or
	// removing a server moves the keys of that server only.
	HashKetama
	// HashKetamaUnweighted is MEMCACHED_BEHAVIOR_KETAMA with MD5: 100 points per server.
	HashKetamaUnweighted
	// HashRendezvous is the distribution of pymemcache: a key belongs to the server with the highest
	// hash of server and key. It distributes keys more evenly than ketama, and its cost grows with
	// the number of servers.
	HashRendezvous
)

// ring distributes keys to servers. pick returns the index of the server for a key. The servers
// have an order for each key; pick skips the first ones, as many as tried, because they have
// failed. tried is less than the number of servers.
type ring interface {
	pick(key string, tried int) int
}

func newRing(h Hashing, addrs []net.Addr, weights []int) (ring, error) {
	if len(weights) != 0 && (h == HashModulo || h == HashRendezvous) {
		return nil, fmt.Errorf("larder client: Weights require HashKetama")
	}
	for i, weight := range weights {
		if weight < 1 {
			return nil, fmt.Errorf("larder client: weight of %v is %d, want 1 or more", addrs[i], weight)
		}
	}
	switch h {
	case HashModulo:
		return modulo(len(addrs)), nil
	case HashKetama:
		return newKetama(addrs, weights), nil
	case HashKetamaUnweighted:
		if len(weights) != 0 {
			return nil, fmt.Errorf("larder client: HashKetamaUnweighted does not support Weights; HashKetama does")
		}
		return newKetamaUnweighted(addrs), nil
	case HashRendezvous:
		return newRendezvous(addrs), nil
	}
	return nil, fmt.Errorf("larder client: invalid Hashing %d", h)
}

// modulo is the number of servers.
type modulo int

func (m modulo) pick(key string, tried int) int {
	// crc32 takes a slice; this buffer keeps a short key on the stack.
	var buf [256]byte
	sum := crc32.ChecksumIEEE(append(buf[:0], key...))
	return (int(sum%uint32(m)) + tried) % int(m)
}
