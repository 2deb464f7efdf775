package reader

import "testing"

func TestSizesFollowNumberOfPeers(t *testing.T) {
	const slotBytes = 768
	for _, c := range []struct{ memory, peers, threadSlots uint64 }{
		{1 << 20, 16, 32},
		{1 << 20, 17, 64},
		{4 << 20, 64, 128},
		{32 << 20, 1, 256},
		{32 << 20, 128, 256},
		{32 << 20, 129, 512},
		{32 << 20, 4096, 8192},
		{1 << 30, 256, 1024},
		{1 << 30, 513, 2048},
	} {
		if found := sizesOf(c.memory, c.memory, slotBytes, c.peers).threadSlots; found != c.threadSlots {
			t.Errorf("%d peers in %d bytes: %d thread slots, want %d", c.peers, c.memory, found, c.threadSlots)
		}
	}
}

func TestFurtherPeersAreInAdditionToTheMemory(t *testing.T) {
	const slotBytes, memory = 768, 32 << 20
	few, many := sizesOf(memory, memory, slotBytes, 64), sizesOf(memory, memory, slotBytes, 4096)
	if few.regionBytes != memory {
		t.Errorf("a region of 64 peers has %d bytes, want those of its memory, %d", few.regionBytes, memory)
	}
	if many.segments != few.segments || many.regionBytes <= memory {
		t.Errorf("4096 peers: %d segments in %d bytes, want %d segments, as 64 peers have, in more than %d",
			many.segments, many.regionBytes, few.segments, memory)
	}
}
