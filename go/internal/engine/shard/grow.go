package shard

import (
	"larder.example/larder/internal/engine/record"
	"larder.example/larder/internal/engine/steps"
)

// loadPercent is the percentage of filled slots above which the index grows. It cannot be much
// higher. In the middle of a round of splits, the groups that are not split yet have 1.5 times as
// many items as the average group; if they have more items than slots, a reader needs a second
// cache line.
const loadPercent = 62

// grow splits one group if the index is crowded: it adds a group and moves to it the items of the
// old group whose hash has a 1 in the next bit. Readers never wait for it:
//
//  1. it fills the new group, which no reader reaches yet
//  2. it raises the level; from here on readers search the new group
//  3. it clears the moved slots in the old group
//
// After a miss, a reader loads the level again, and repeats the search if the level has changed.
//
// A group and its overflow groups are a chain. If the items that stay in the old chain fit into its
// first group, grow then removes the overflow groups: it copies their slots to the first group,
// changes the version in the level, and only then clears the copied slots.
func (s *Shard) grow() {
	groups := groupsOf(s.level.Load())
	if s.items*100 <= int(groups)*slots*loadPercent {
		return
	}
	// The tag must contain the bit of the hash that distinguishes the two groups.
	level := uint(0)
	for groups>>(level+1) != 0 {
		level++
	}
	if level-s.firstLevel >= record.TagBits || !s.extendPages(groups) {
		return
	}
	old := groups - 1<<level
	bit := uint64(1) << (level - s.firstLevel)
	if s.fillGroup(old, groups, bit) {
		steps.At(steps.GroupFilled)
		s.raiseLevel(groups + 1)
		steps.At(steps.LevelRaised)
		s.clearMoved(old, bit)
		steps.At(steps.SlotsCleared)
		s.joinChain(old, groups+1)
	}
}

// extendPages makes sure that the group with this number has memory. A page is a segment that
// contains groups of the index.
func (s *Shard) extendPages(number uint) bool {
	page := int(number >> s.pageShift)
	if page < s.pageCount {
		return true
	}
	segment, ok := s.takePage()
	if ok {
		s.pages[page].Store(uint32(segment))
		s.pageCount++
	}
	return ok
}

func (s *Shard) raiseLevel(groups uint) {
	s.version++
	s.level.Store(levelOf(s.version, int(groups)))
}

// chain calls visit for each slot of a group and of its overflow groups, except links.
func (s *Shard) chain(g group, visit func(at *uint64, slot record.Slot)) {
	for {
		for number := range slots {
			at := g.slot(number)
			slot := load(at)
			if number == last && slot.IsLink() {
				break
			}
			if slot != 0 {
				visit(at, slot)
			}
		}
		slot := load(g.slot(last))
		if !slot.IsLink() {
			return
		}
		g = s.overflow(slot)
	}
}

// fillGroup copies the slots that belong to the new group from the old group: all live slots, and
// ghosts as far as there is room. It returns false if the shard has no memory for the overflow
// groups that it needs.
//
// It reserves the overflow groups before it reads the slots. Making room for overflow groups may
// move items, so a slot that was read before could refer to a record that no longer exists.
func (s *Shard) fillGroup(old, number uint, bit uint64) bool {
	if !s.reserveOverflow(s.countMoving(old, bit) / last) {
		return false
	}
	moving, ghosts := s.moving[:0], [slots]record.Slot{}
	ghostCount := 0
	s.chain(s.groupIn(s.pages, old), func(_ *uint64, slot record.Slot) {
		switch {
		case slot.Tag()&bit == 0:
		case s.isLive(slot):
			moving = append(moving, slot)
		case ghostCount < slots && s.isGhost(slot):
			ghosts[ghostCount] = slot
			ghostCount++
		}
	})
	s.moving = moving
	for at := 0; at < ghostCount && len(moving) < slots; at++ {
		moving = append(moving, ghosts[at])
	}
	g := s.groupIn(s.pages, number)
	for len(moving) > slots {
		for at, slot := range moving[:last] {
			store(g.slot(at), slot)
		}
		moving = moving[last:]
		overflow, ok := s.takeOverflow()
		if !ok {
			// This cannot happen, because enough groups were reserved. A defect here must not end the
			// host program.
			s.dropChain(s.groupIn(s.pages, number))
			return false
		}
		link := record.MakeLink(overflow)
		store(g.slot(last), link)
		g = s.overflow(link)
	}
	for at, slot := range moving {
		store(g.slot(at), slot)
	}
	return true
}

// countMoving returns the number of live slots of a chain that belong in the new group.
func (s *Shard) countMoving(old uint, bit uint64) (count int) {
	s.chain(s.groupIn(s.pages, old), func(_ *uint64, slot record.Slot) {
		if slot.Tag()&bit != 0 && s.isLive(slot) {
			count++
		}
	})
	return count
}

// dropChain empties a group that no reader reaches, and frees its overflow groups.
func (s *Shard) dropChain(g group) {
	for {
		link := load(g.slot(last))
		for number := range slots {
			store(g.slot(number), 0)
		}
		if !link.IsLink() {
			return
		}
		g = s.overflow(link)
		s.overflowFree = append(s.overflowFree, link.Link())
	}
}

func (s *Shard) clearMoved(old uint, bit uint64) {
	s.chain(s.groupIn(s.pages, old), func(at *uint64, slot record.Slot) {
		if slot.Tag()&bit != 0 {
			store(at, 0)
		}
	})
}

// joinChain moves the slots of a chain to its first group if they fit there, and frees the other
// groups.
func (s *Shard) joinChain(number, groups uint) {
	first := s.groupIn(s.pages, number)
	link := load(first.slot(last))
	if !link.IsLink() {
		return
	}
	count, behind := 0, s.moving[:0]
	s.chain(first, func(_ *uint64, slot record.Slot) {
		if s.isLive(slot) {
			count++
		}
	})
	if count > slots {
		return
	}
	s.chain(s.overflow(link), func(_ *uint64, slot record.Slot) {
		if s.isLive(slot) {
			behind = append(behind, slot)
		}
	})
	s.moving = behind
	for at := 0; at < last && len(behind) > 0; at++ {
		if !s.isLive(load(first.slot(at))) {
			store(first.slot(at), behind[0])
			behind = behind[1:]
		}
	}
	steps.At(steps.ChainCopied)
	// Replace the link last, because readers reach the overflow groups through it. The first group has
	// one slot besides those filled above, the slot of the link, for the one item that may be left.
	rest := record.Slot(0)
	if len(behind) > 0 {
		rest = behind[0]
	}
	store(first.slot(last), rest)
	steps.At(steps.ChainCut)
	s.raiseLevel(groups)
	steps.At(steps.LevelChanged)
	s.dropChain(s.overflow(link))
	steps.At(steps.OverflowCleared)
	s.overflowFree = append(s.overflowFree, link.Link())
}
