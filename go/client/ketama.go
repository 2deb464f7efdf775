package client

import (
	"cmp"
	"crypto/md5"
	"encoding/binary"
	"math"
	"net"
	"slices"
	"strconv"
)

// ketama is a circle of points, each of which has a hash and belongs to a server. A key belongs to
// the first point whose hash is not lower than the hash of the key, or to the first point of the
// circle if there is no such point. The points and their order are the same as in libmemcached,
// including the rounding of shares in float32.
type ketama struct {
	points  []point
	servers int
}

type point struct {
	hash   uint32
	server int
}

const (
	pointsWeighted   = 160
	pointsUnweighted = 100
	// Points per MD5 sum if servers have weights. Without weights each sum is one point.
	pointsPerHash = 4
	// The names of points do not contain this port, as in libmemcached.
	memcachedPort = "11211"
)

func newKetama(addrs []net.Addr, weights []int) *ketama {
	total := 0
	for i := range addrs {
		total += weightOf(weights, i)
	}
	k := &ketama{servers: len(addrs)}
	for i, addr := range addrs {
		share := float32(weightOf(weights, i)) / float32(total)
		hashes := int(math.Floor(float64(float32(float64(share*pointsWeighted/pointsPerHash*float32(len(addrs))) + 0.0000000001))))
		for n := range hashes {
			sum := md5.Sum(pointName(addr, n))
			for part := range pointsPerHash {
				k.points = append(k.points, point{binary.LittleEndian.Uint32(sum[part*4:]), i})
			}
		}
	}
	k.sort()
	return k
}

func weightOf(weights []int, i int) int {
	if len(weights) == 0 {
		return 1
	}
	return weights[i]
}

func newKetamaUnweighted(addrs []net.Addr) *ketama {
	k := &ketama{servers: len(addrs)}
	for i, addr := range addrs {
		for n := range pointsUnweighted {
			k.points = append(k.points, point{hashMD5(pointName(addr, n)), i})
		}
	}
	k.sort()
	return k
}

func (k *ketama) sort() {
	slices.SortStableFunc(k.points, func(a, b point) int { return cmp.Compare(a.hash, b.hash) })
}

// pointName returns the text whose hash is a point: "host-number" or "host:port-number".
// libmemcached uses the port 0 for a unix socket.
func pointName(addr net.Addr, n int) []byte {
	name := addr.String()
	if addr.Network() == "unix" {
		name += ":0"
	} else if host, port, err := net.SplitHostPort(name); err == nil && port == memcachedPort {
		name = host
	} else if err == nil {
		name = host + ":" + port
	}
	return strconv.AppendInt(append([]byte(name), '-'), int64(n), 10)
}

func hashMD5(b []byte) uint32 {
	sum := md5.Sum(b)
	return binary.LittleEndian.Uint32(sum[:])
}

func (k *ketama) pick(key string, tried int) int {
	var buf [256]byte
	hash := hashMD5(append(buf[:0], key...))
	at, _ := slices.BinarySearchFunc(k.points, hash, func(p point, hash uint32) int { return cmp.Compare(p.hash, hash) })
	if tried == 0 {
		return k.points[at%len(k.points)].server
	}
	seen := make([]bool, k.servers)
	for i := range k.points {
		server := k.points[(at+i)%len(k.points)].server
		if seen[server] {
			continue
		}
		if tried == 0 {
			return server
		}
		seen[server] = true
		tried--
	}
	// A server whose weight is so low that it has no point is tried last.
	for server, wasSeen := range seen {
		if !wasSeen {
			if tried == 0 {
				return server
			}
			tried--
		}
	}
	return 0
}
