package reader

import "testing"

func TestSizesFollowNumberOfPeers(t *testing.T) {
	const slotBytes = 768
	for _, c := range []struct{ memory, peers, peersMax, threadSlots uint64 }{
		{1 << 20, 16, 16, 32},
		{4 << 20, 64, 64, 128},
		{32 << 20, 1, 256, 256},
		{32 << 20, 128, 256, 256},
		{32 << 20, 129, 256, 512},
		{1 << 30, 256, 256, 1024},
	} {
		sizes := sizesOf(c.memory, c.memory, slotBytes, c.peers)
		if sizes.threadSlots != c.threadSlots || peersMax(c.memory) != c.peersMax {
			t.Errorf("%d peers in %d bytes: %d thread slots and at most %d peers, want %d and %d", c.peers,
				c.memory, sizes.threadSlots, peersMax(c.memory), c.threadSlots, c.peersMax)
		}
	}
}
