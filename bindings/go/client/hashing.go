package client

import (
	"fmt"
	"hash/crc32"
	"net"
)

// Hashing says which of several servers has a key.
type Hashing int

const (
	// HashModulo is gomemcache's: CRC-32 of the key, modulo the number of servers. One server more or less moves nearly
	// all keys.
	HashModulo Hashing = iota
	// HashKetama is that of libmemcached's MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED with MD5, which PHP calls
	// OPT_LIBKETAMA_COMPATIBLE: 160 points on a circle for a server of average weight. One server more or less moves
	// the keys of one.
	HashKetama
	// HashKetamaUnweighted is that of MEMCACHED_BEHAVIOR_KETAMA with MD5: 100 points a server.
	HashKetamaUnweighted
	// HashRendezvous is that of pymemcache: the server with which the key has the highest hash. It spreads keys more
	// evenly than ketama, and its time grows with the number of servers.
	HashRendezvous
)

// ring picks the server that comes for a key after as many others as were tried, which are fewer than there are.
type ring interface {
	pick(key string, tried int) int
}

func newRing(h Hashing, addrs []net.Addr, weights []int) (ring, error) {
	if len(weights) != 0 && (h == HashModulo || h == HashRendezvous) {
		return nil, fmt.Errorf("larder client: only ketama knows weights")
	}
	for i, weight := range weights {
		if weight < 1 {
			return nil, fmt.Errorf("larder client: the weight of %v is %d, and has to be 1 or more", addrs[i], weight)
		}
	}
	switch h {
	case HashModulo:
		return modulo(len(addrs)), nil
	case HashKetama:
		return newKetama(addrs, weights), nil
	case HashKetamaUnweighted:
		if len(weights) != 0 {
			return nil, fmt.Errorf("larder client: HashKetamaUnweighted knows no weights; HashKetama does")
		}
		return newKetamaUnweighted(addrs), nil
	case HashRendezvous:
		return newRendezvous(addrs), nil
	}
	return nil, fmt.Errorf("larder client: there is no Hashing %d", h)
}

// modulo is a number of servers.
type modulo int

func (m modulo) pick(key string, tried int) int {
	// crc32 takes a slice; that of a short key does not leave the stack.
	var buf [256]byte
	sum := crc32.ChecksumIEEE(append(buf[:0], key...))
	return (int(sum%uint32(m)) + tried) % int(m)
}
