package shard

import (
	"fmt"
	"hash/maphash"
	"testing"
)

// TestASplitThatNeedsMemoryMovesNoStaleSlots splits a group whose items are in nearly dead
// segments, so that making room for the new group's overflow moves the items that the split moves.
func TestASplitThatNeedsMemoryMovesNoStaleSlots(t *testing.T) {
	s, table := openShard(t)
	var keys, fillers []string
	for at := 0; len(keys) < 9; at++ {
		key := fmt.Sprint("key", at)
		hash := maphash.String(s.config.Seed, key)
		if groupNumber(s.level.Load(), hash) != 0 || s.tag(hash)&1 == 0 {
			continue
		}
		keys = append(keys, key)
		s.set(t, key, 10)
		for number := range 4 {
			filler := fmt.Sprint("filler", at, "-", number)
			s.set(t, filler, 400)
			fillers = append(fillers, filler)
		}
	}
	s.Lock()
	s.seal(small)
	for _, filler := range fillers {
		if err := s.Delete(filler, maphash.String(s.config.Seed, filler), 0); err != nil {
			t.Fatal(err)
		}
	}
	// The next overflow group needs a page.
	s.overflowFree, s.overflowNext = nil, uint32(s.overflowCount)<<s.pageShift
	groups := groupsOf(s.level.Load())
	if !s.extendPages(groups) {
		t.Fatal("no page")
	}
	before := s.stats.Relocated
	if !s.fillGroup(0, groups, 1) {
		t.Fatal("the group is not filled")
	}
	if s.stats.Relocated == before {
		t.Error("no item was moved")
	}
	s.raiseLevel(groups + 1)
	s.clearMoved(0, 1)
	s.joinChain(0, groups+1)
	s.Unlock()
	cell := table.Claim()
	for _, key := range keys {
		s.mustFind(t, cell, key)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}
