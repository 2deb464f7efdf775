package reader

import (
	"encoding/binary"
	"math/bits"
)

// secrets is the state of rapidhash v3 for the seed of a region. The hash of a key is part of the
// format.
type secrets struct {
	seed uint64
	word [7]uint64
}

// mixers are the constants from which rapidhash derives its secrets.
var mixers = [7]uint64{
	0x2d358dccaa6c78a5, 0x8bb84b93962eacc9, 0x4b33a62ed433d4a3, 0x4d5a2da51de1aa47,
	0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x90ed1765281c388c,
}

// secretsOf derives the secrets of a seed, each from the previous one.
func secretsOf(seed uint64) secrets {
	made := secrets{seed: premixed(seed, 0)}
	last := made.seed
	for i := range made.word {
		last = premixed(last, i)
		made.word[i] = last
	}
	return made
}

// premixed mixes a seed and ensures that its upper, middle and lower parts are not 0.
func premixed(seed uint64, mixer int) uint64 {
	seed ^= mix(seed^mixers[2], mixers[mixer])
	for _, part := range [3]struct{ mask, bit uint64 }{
		{0xFFFF << 48, 1 << 63}, {0xFFFF << 24, 1 << 31}, {0xFFFF, 1},
	} {
		if seed&part.mask == 0 {
			seed |= part.bit
		}
	}
	return seed
}

// mix returns the folded 128-bit product.
func mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

func eight(data []byte, at int) uint64 { return binary.LittleEndian.Uint64(data[at:]) }
func four(data []byte, at int) uint64  { return uint64(binary.LittleEndian.Uint32(data[at:])) }

// hash returns rapidhash v3 of a key.
func (s *secrets) hash(key []byte) uint64 {
	if len(key) > 16 {
		return s.hashLong(key)
	}
	var a, b uint64
	seed := s.seed
	switch n := len(key); {
	case n >= 8:
		seed ^= uint64(n)
		a, b = eight(key, 0), eight(key, n-8)
	case n >= 4:
		seed ^= uint64(n)
		a, b = four(key, 0), four(key, n-4)
	case n > 0:
		a, b = uint64(key[0])<<45|uint64(key[n-1]), uint64(key[n/2])
	}
	return s.finish(a, b, seed, uint64(len(key)))
}

// hashLong is like hash, for more than 16 bytes.
func (s *secrets) hashLong(key []byte) uint64 {
	seed, rest := s.seed, key
	if len(rest) > 112 {
		seed, rest = s.lanes(rest)
	}
	for i := range 6 {
		at := 16 * i
		if len(rest) <= at+16 {
			break
		}
		// The six steps use the secrets 2 2 1 1 2 1.
		secret := s.word[1]
		if i == 0 || i == 1 || i == 4 {
			secret = s.word[2]
		}
		seed = mix(eight(rest, at)^secret, eight(rest, at+8)^seed)
	}
	n := uint64(len(rest))
	return s.finish(eight(key, len(key)-16)^n, eight(key, len(key)-8), seed, n)
}

// lanes consumes blocks of 112 bytes, in seven independent lanes, while more than 112 bytes remain.
func (s *secrets) lanes(rest []byte) (seed uint64, left []byte) {
	var lane [7]uint64
	for i := range lane {
		lane[i] = s.seed
	}
	for ; len(rest) > 112; rest = rest[112:] {
		for i := range lane {
			lane[i] = mix(eight(rest, 16*i)^s.word[i], eight(rest, 16*i+8)^lane[i])
		}
	}
	for _, one := range lane {
		seed ^= one
	}
	return seed, rest
}

func (s *secrets) finish(a, b, seed, remainder uint64) uint64 {
	high, low := bits.Mul64(a^s.word[1], b^seed)
	return mix(low^0xaaaaaaaaaaaaaaaa, high^s.word[1]^remainder)
}
