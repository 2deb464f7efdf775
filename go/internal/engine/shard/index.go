package shard

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"larder.example/larder/internal/engine/record"
)

const (
	// slots is the number of slot words of a group. A group occupies one line of the processor's
	// cache.
	slots      = 8
	groupBytes = slots * 8
	last       = slots - 1
)

// group is the address of eight slot words in a segment that belongs to the index permanently.
type group struct{ at unsafe.Pointer }

func (g group) address() uintptr { return uintptr(g.at) }

func (g group) slot(number int) *uint64 { return (*uint64)(unsafe.Add(g.at, number*8)) }

func load(at *uint64) record.Slot         { return record.Slot(atomic.LoadUint64(at)) }
func store(at *uint64, slot record.Slot)  { atomic.StoreUint64(at, uint64(slot)) }
func levelOf(version, groups int) uint64  { return uint64(version)<<32 | uint64(groups) }
func groupsOf(level uint64) (groups uint) { return uint(uint32(level)) }

// index is the state of the index that only writers use. moving is memory that grow reuses.
type index struct {
	version       int
	pageCount     int
	overflowCount int
	overflowNext  uint32
	overflowFree  []uint32
	moving        []record.Slot
	// forgottenFrom is the lowest age at which the slot of an evicted item is not a ghost.
	forgottenFrom int64
}

func (s *Shard) openIndex() {
	s.pageShift = uint(bits.Len(uint(s.segmentBytes/groupBytes)) - 1)
	s.firstLevel = s.pageShift
	s.forgottenFrom = ghostAges + 1
	if s.config.NoGhosts {
		s.forgottenFrom = 1
	}
	// Segment 0 contains the first groups. With generation 1, a slot word of zero (segment 0,
	// generation 0) refers to no record.
	s.generations[0].Store(1)
	s.segments[0].state = isIndex
	s.fresh, s.pageCount = 1, 1
	s.level.Store(levelOf(0, 1<<s.pageShift))
}

// tag returns the bits of a hash that a slot stores. The lowest of them are the bits by which
// splits distinguish groups, so that a split does not need the keys.
func (s *Shard) tag(hash uint64) uint64 {
	return hash >> s.firstLevel & (1<<record.TagBits - 1)
}

// groupNumber returns the number of the group of a hash. In a round of splits the number of groups
// doubles. Groups that are not split yet are selected by one bit less of the hash than the others.
func groupNumber(level, hash uint64) uint {
	groups := groupsOf(level)
	half := uint(1) << (bits.Len(groups) - 1)
	number := uint(hash) & (half<<1 - 1)
	if number >= groups {
		number &= half - 1
	}
	return number
}

func (s *Shard) groupIn(pages []atomic.Uint32, number uint) group {
	segment := int(pages[number>>s.pageShift].Load())
	at := number & (1<<s.pageShift - 1) * groupBytes
	return group{unsafe.Add(s.base, segment*s.segmentBytes+int(at))}
}

func (s *Shard) group(level, hash uint64) group {
	return s.groupIn(s.pages, groupNumber(level, hash))
}

func (s *Shard) overflow(link record.Slot) group {
	return s.groupIn(s.overflowPages, uint(link.Link()))
}

// isLive returns true if a slot word refers to a record that exists.
func (s *Shard) isLive(slot record.Slot) bool {
	segment := slot.Segment()
	return segment < len(s.generations) && s.generations[segment].Load() == slot.Generation()
}

// place is the result of a writer's search in the groups of a key.
type place struct {
	// at is the slot of the key's item, or nil. The other three fields are its word and its record.
	at     *uint64
	slot   record.Slot
	record record.Record
	header record.Header
	// free is a slot for a new item, or nil if the groups are full.
	free *uint64
	// isGhost is true if an item with the key's tag was recently evicted from the small pool.
	isGhost bool
}

func (p *place) isFound() bool { return p.at != nil }

// lookup finds the item of a key, expired or not, or a slot for it. It searches all groups of the
// key before it returns a free slot, because the item may be in the last group. The caller holds
// the mutex.
//
// It writes the result to *found. Returning a place by value took longer than comparing the tags.
func (s *Shard) lookup(hash uint64, key string, found *place) {
	*found = place{}
	tag := s.tag(hash)
	first := s.group(s.level.Load(), hash)
	for g := first; ; {
		slot := record.Slot(0)
		for number := range slots {
			at := g.slot(number)
			slot = load(at)
			if slot.Tag() != tag || !s.isLive(slot) {
				continue
			}
			r := s.record(slot)
			if h := r.Header(); r.HasKey(h, key) {
				found.at, found.slot, found.record, found.header = at, slot, r, h
				return
			}
		}
		if !slot.IsLink() {
			break
		}
		g = s.overflow(slot)
	}
	s.offer(first, tag, found)
}

// The ranks of slots: how suitable a slot is for a new item. The ghost of the key itself is best,
// because the new item makes it useless. The ghost of another key is worst, because it is lost.
const (
	isTaken = iota
	isOtherGhost
	isForgotten
	isEmpty
	isOwnGhost
)

// offer finds the best free slot for a new item, and whether the groups contain a ghost of its key.
func (s *Shard) offer(g group, tag uint64, found *place) {
	for best := isTaken; ; {
		number, rank := s.bestSlot(g, tag)
		if rank > best {
			best = rank
			found.free, found.isGhost = g.slot(number), rank == isOwnGhost
		}
		slot := load(g.slot(last))
		if !slot.IsLink() {
			return
		}
		g = s.overflow(slot)
	}
}

// bestSlot returns the first of the best slots of a group, and its rank.
//
// In a full cache the slots of a group are live, ghosts or forgotten, in no pattern that a
// processor could predict. bestSlot therefore has no branches that depend on them.
func (s *Shard) bestSlot(g group, tag uint64) (number, found int) {
	// The rank of a slot, times the number of slots, and less for the later ones of equal slots.
	best := 0
	generations, forgottenFrom := s.generations, s.forgottenFrom
	for number := range slots {
		slot := load(g.slot(number))
		segment := slot.Segment()
		if segment >= len(generations) {
			// A link is taken.
			continue
		}
		age := int64((generations[segment].Load() - slot.Generation()) % record.Generations)
		// The shift gives -1 for a negative number, and otherwise 0.
		rank := isForgotten + int((age-forgottenFrom)>>63) + int((age-1)>>63)
		if slot == 0 {
			rank = isEmpty
		}
		if slot.Tag() == tag && rank == isOtherGhost {
			rank = isOwnGhost
		}
		best = max(best, rank*slots+last-number)
	}
	return last - best%slots, best / slots
}

// find returns the address of the slot that contains a word, or nil.
func (s *Shard) find(hash uint64, wanted record.Slot) *uint64 {
	for g := s.group(s.level.Load(), hash); ; {
		for number := range slots {
			if at := g.slot(number); load(at) == wanted {
				return at
			}
		}
		slot := load(g.slot(last))
		if !slot.IsLink() {
			return nil
		}
		g = s.overflow(slot)
	}
}

// insert adds a new item to the index. If found.free is nil, the groups of its key have no slot for
// it. Then insert adds an overflow group, or evicts the least read item of the groups if the index
// may not grow.
func (s *Shard) insert(hash uint64, found *place, slot record.Slot) {
	if found.free != nil {
		store(found.free, slot)
		return
	}
	number, ok := s.takeOverflow()
	if !ok {
		store(s.freeSlot(hash), slot)
		return
	}
	g := s.group(s.level.Load(), hash)
	for load(g.slot(last)).IsLink() {
		g = s.overflow(load(g.slot(last)))
	}
	// The link replaces the item in the last slot, so that item is first copied to the new group. A
	// reader checks the last slot last, and finds there either the item or the link to its copy.
	link := record.MakeLink(number)
	beyond := s.overflow(link)
	store(beyond.slot(0), load(g.slot(last)))
	store(beyond.slot(1), slot)
	store(g.slot(last), link)
}

// freeSlot returns a slot without an item in the groups of a hash. If all slots have items, it
// evicts the least read one.
func (s *Shard) freeSlot(hash uint64) (free *uint64) {
	var least place
	s.chain(s.group(s.level.Load(), hash), func(at *uint64, slot record.Slot) {
		if !s.isLive(slot) {
			free = at
			return
		}
		r := s.record(slot)
		h := r.Header()
		if !least.isFound() || h.Frequency() < least.header.Frequency() {
			least = place{at: at, slot: slot, record: r, header: h}
		}
	})
	if free == nil {
		free = least.at
		if s.isExpired(least.record, least.header) {
			s.remove(&least, Expired)
		} else {
			s.remove(&least, Evicted)
			s.stats.Evictions++
		}
	}
	return free
}

// takeOverflow returns an empty overflow group. Unless a group is free, the call may move items.
func (s *Shard) takeOverflow() (uint32, bool) {
	if !s.reserveOverflow(1) {
		return 0, false
	}
	count := len(s.overflowFree)
	number := s.overflowFree[count-1]
	s.overflowFree = s.overflowFree[:count-1]
	return number, true
}

// reserveOverflow makes sure that a number of overflow groups are free. The call may move items.
func (s *Shard) reserveOverflow(count int) bool {
	for len(s.overflowFree) < count {
		if int(s.overflowNext)>>s.pageShift == s.overflowCount {
			segment, ok := s.takePage()
			if !ok {
				return false
			}
			s.overflowPages[s.overflowCount].Store(uint32(segment))
			s.overflowCount++
		}
		s.overflowFree = append(s.overflowFree, s.overflowNext)
		s.overflowNext++
	}
	return true
}

// takePage takes a segment for the index and clears it. It returns false if the index uses half of
// the memory already.
func (s *Shard) takePage() (int, bool) {
	if 2*(s.pageCount+s.overflowCount) >= s.limit {
		return 0, false
	}
	segment, ok := s.take()
	if !ok {
		return 0, false
	}
	s.segments[segment].state = isIndex
	words := unsafe.Slice((*uint64)(unsafe.Add(s.base, segment*s.segmentBytes)), s.segmentBytes/8)
	clear(words)
	return segment, true
}
