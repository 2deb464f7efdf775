package shard

import (
	"fmt"
	"hash/maphash"
	"math/rand"
	"testing"
	"unsafe"

	"larder.example/larder/internal/engine/pins"
	"larder.example/larder/internal/engine/record"
)

// These tests execute the steps of a reader and of a writer one by one. Each test fails without the
// step of the protocol that its name states.

const testSegments, testSegmentBytes = 32, 4 << 10

func openShard(t *testing.T) (*Shard, *pins.Table) {
	t.Helper()
	words := make([]uint64, testSegments*testSegmentBytes/8)
	table := pins.NewTable(2)
	s := &Shard{}
	s.Open(Config{
		Base:     unsafe.Pointer(unsafe.SliceData(words)),
		Segments: testSegments, SegmentBytes: testSegmentBytes,
		Pins: table, Seed: maphash.MakeSeed(), Now: func() int64 { return 1 },
	})
	return s, table
}

func (s *Shard) set(t *testing.T, key string, size int) {
	t.Helper()
	s.Lock()
	defer s.Unlock()
	request := Request{Key: key, Hash: maphash.String(s.config.Seed, key), Value: make([]byte, size)}
	if _, err := s.Store(&request); err != nil {
		t.Fatalf("Store(%q): %v", key, err)
	}
}

func (s *Shard) mustFind(t *testing.T, cell *pins.Cell, key string) Found {
	t.Helper()
	found, ok := s.Find(cell, maphash.String(s.config.Seed, key), key)
	if !ok {
		t.Fatalf("%q is missing", key)
	}
	return found
}

// churn stores other items until they have overwritten the memory several times.
func (s *Shard) churn(t *testing.T) {
	for at := range 10_000 {
		s.set(t, fmt.Sprint("churn", at), 100)
	}
}

func TestASlotThatChangedAfterItsSegmentDiedIsLookedAtAgain(t *testing.T) {
	s, table := openShard(t)
	s.set(t, "key", 100)
	cell := table.Claim()
	before := s.mustFind(t, cell, "key")
	cell.Unpin()
	// The evictor moves the item: it stores the new place and raises the generation.
	s.Lock()
	s.seal(small)
	if !s.compact(int32(before.Slot.Segment())) {
		t.Fatal("the item cannot be moved")
	}
	s.Unlock()
	if _, result := s.check(cell, before.at, before.Slot, "key"); result != hasChanged {
		t.Errorf("the check of a word out of date returns %d, want %d", result, hasChanged)
	}
	s.mustFind(t, cell, "key")
}

func TestAWordWhoseGenerationCameAgainIsLoadedAgain(t *testing.T) {
	s, table := openShard(t)
	s.set(t, "key", 100)
	cell := table.Claim()
	before := s.mustFind(t, cell, "key")
	// The reader keeps the word while the generations wrap: then the slot is cleared, and the
	// generation is the same as before.
	store(before.at, 0)
	if _, result := s.check(cell, before.at, before.Slot, "key"); result != hasChanged {
		t.Errorf("the check returns %d, want %d", result, hasChanged)
	}
}

func TestAListOfPiecesFromBeforeAWrapIsNotRead(t *testing.T) {
	s, table := openShard(t)
	s.set(t, "key", testSegmentBytes)
	cell := table.Claim()
	found := s.mustFind(t, cell, "key")
	piece := found.Record.PieceAt(found.Header, 0)
	// While the reader waits, the item is removed, the memory of its pieces is reused, and the
	// generations wrap. The reader has pinned only the list.
	s.Lock()
	if err := s.Delete("key", maphash.String(s.config.Seed, "key"), 0); err != nil {
		t.Fatal(err)
	}
	s.Unlock()
	s.churn(t)
	for number := range s.generations {
		s.generations[number].Store(piece.Generation())
	}
	if value, ok := s.ReadLarge(nil, cell, &found); ok {
		t.Errorf("it reads %d bytes of other items", len(value))
	}
}

func TestAnUnchangedSlotOfADeadSegmentIsDead(t *testing.T) {
	s, table := openShard(t)
	s.set(t, "key", 100)
	cell := table.Claim()
	before := s.mustFind(t, cell, "key")
	s.generations[before.Slot.Segment()].Add(1)
	if _, result := s.check(cell, before.at, before.Slot, "key"); result != isOther {
		t.Errorf("the check returns %d, want %d", result, isOther)
	}
}

func TestAReadIsNotedOnlyInTheHeaderThatWasSeen(t *testing.T) {
	s, table := openShard(t)
	s.set(t, "key", 100)
	cell := table.Claim()
	found := s.mustFind(t, cell, "key")
	found.Record.Mark(record.Dead, 0)
	want := found.Record.Header()
	s.NoteRead(&found)
	if got := found.Record.Header(); got != want {
		t.Errorf("header %x, want %x", got, want)
	}
	for range 10 {
		again := Found{found.at, found.Slot, found.Record, found.Record.Header()}
		s.NoteRead(&again)
	}
	if got := found.Record.Header(); got.Frequency() != record.FrequencyMax || got.Access() != 0 {
		t.Errorf("header %x after ten reads", got)
	}
}

func TestAPinnedSegmentIsNotUsedAnew(t *testing.T) {
	s, table := openShard(t)
	s.set(t, "key", 100)
	cell := table.Claim()
	found := s.mustFind(t, cell, "key")
	number := int32(found.Slot.Segment())
	s.churn(t)
	if !found.Record.HasKey(found.Record.Header(), "key") {
		t.Error("a pinned record was overwritten")
	}
	// The same is true if the record dies for another reason.
	s.Lock()
	s.Clear()
	if s.segments[number].state != isLimbo {
		t.Errorf("a pinned segment is in state %d, want limbo", s.segments[number].state)
	}
	s.Unlock()
	s.churn(t)
	if !found.Record.HasKey(found.Header, "key") {
		t.Error("a record in limbo was overwritten")
	}
	cell.Release(pins.None)
	s.Lock()
	s.leaveLimbo()
	if s.segments[number].state != isFree {
		t.Errorf("a released segment is in state %d, want free", s.segments[number].state)
	}
	s.Unlock()
}

func TestASegmentWithAPendingRecordIsNotEmptied(t *testing.T) {
	s, _ := openShard(t)
	s.Lock()
	room, _, ok := s.reserve(small, 64)
	if !ok {
		t.Fatal("no room")
	}
	h := record.MakeHeader(3, 40, record.Unpublished)
	room.record.SetHeader(h)
	room.record.Fill(h, "key", 0, 0, 0)
	s.hold(room.segment)
	s.Unlock()
	s.churn(t)
	s.Lock()
	defer s.Unlock()
	s.Clear()
	if room.record.Header() != h || string(room.record.Key(h)) != "key" {
		t.Error("a record was overwritten while it was being written")
	}
	if state := s.segments[room.segment].state; state != isSealed {
		t.Errorf("its segment is in state %d", state)
	}
}

func TestSlotsOfASegmentAreClearedBeforeItsGenerationsWrap(t *testing.T) {
	s, table := openShard(t)
	s.set(t, "key", 100)
	cell := table.Claim()
	found := s.mustFind(t, cell, "key")
	cell.Unpin()
	number := found.Slot.Segment()
	// A slot that became invalid long ago, in generation zero.
	s.Lock()
	ancient := record.MakeSlot(found.Slot.Tag(), 0, number, found.Slot.Offset())
	store(found.at, ancient)
	s.items--
	s.generations[number].Store(record.Generations - 1)
	s.segments[number].live = 0
	s.live = 0
	s.seal(small)
	s.unlink(int32(number))
	s.retire(int32(number), asGhosts)
	s.Unlock()
	if generation := s.generations[number].Load(); generation != 0 {
		t.Fatalf("generation %d, want 0", generation)
	}
	if s.isLive(load(found.at)) {
		t.Error("a slot of an earlier life of the segment names a record")
	}
}

func TestGenerationsWrapInUse(t *testing.T) {
	s, table := openShard(t)
	for number := 1; number < testSegments; number++ {
		s.generations[number].Store(record.Generations - 30)
	}
	cell := table.Claim()
	for round := range 30 {
		s.churn(t)
		key := fmt.Sprint("round", round)
		s.set(t, key, 100)
		s.mustFind(t, cell, key)
		cell.Unpin()
	}
	if s.wraps.Load() == 0 {
		t.Error("no generation has wrapped")
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// TestAStoreReplacesTheLiveSlotBehindAFreeOne fills a group and removes an item at its start.
func TestAStoreReplacesTheLiveSlotBehindAFreeOne(t *testing.T) {
	s, _ := openShard(t)
	var keys []string
	for at := 0; len(keys) < 5; at++ {
		key := fmt.Sprint("key", at)
		if groupNumber(s.level.Load(), maphash.String(s.config.Seed, key)) == 0 {
			keys = append(keys, key)
			s.set(t, key, 10)
		}
	}
	s.Lock()
	defer s.Unlock()
	hash := maphash.String(s.config.Seed, keys[0])
	if err := s.Delete(keys[0], hash, 0); err != nil {
		t.Fatal(err)
	}
	key := keys[4]
	hash = maphash.String(s.config.Seed, key)
	if _, err := s.Store(&Request{Key: key, Hash: hash, Value: []byte("new")}); err != nil {
		t.Fatal(err)
	}
	if s.items != 4 {
		t.Errorf("%d items, want 4", s.items)
	}
	if err := s.Delete(key, hash, 0); err != nil {
		t.Fatal(err)
	}
	var found place
	if s.lookup(hash, key, &found); found.isFound() {
		t.Error("the old value is back")
	}
}

// TestReadersFindAllItemsBetweenTheStepsOfASplit looks up all items after each step.
func TestReadersFindAllItemsBetweenTheStepsOfASplit(t *testing.T) {
	s, table := openShard(t)
	var keys []string
	for at := range 250 {
		key := fmt.Sprint("key", at)
		keys = append(keys, key)
		s.set(t, key, 10)
	}
	cell := table.Claim()
	look := func(step string) {
		t.Helper()
		for _, key := range keys {
			if _, ok := s.Find(cell, maphash.String(s.config.Seed, key), key); !ok {
				t.Fatalf("after %s, %q is missing", step, key)
			}
		}
		cell.Unpin()
	}
	for range 40 {
		groups := groupsOf(s.level.Load())
		level := uint(0)
		for groups>>(level+1) != 0 {
			level++
		}
		old, bit := groups-1<<level, uint64(1)<<(level-s.firstLevel)
		if !s.extendPages(groups) || !s.fillGroup(old, groups, bit) {
			t.Fatal("no memory for a split")
		}
		look("filling")
		s.raiseLevel(groups + 1)
		look("raising")
		s.clearMoved(old, bit)
		look("clearing")
		s.joinChain(old, groups+1)
		look("joining")
	}
}

func TestTheFirstOfTheBestSlotsIsOffered(t *testing.T) {
	s, _ := openShard(t)
	const tag = 7
	for segment := range s.generations {
		s.generations[segment].Store(uint32(20 + segment))
	}
	s.generations[0].Store(1)
	words := new([slots]uint64)
	g := group{unsafe.Pointer(words)}
	random := rand.New(rand.NewSource(1))
	seen := map[int]int{}
	for range 20_000 {
		for number := range words {
			words[number] = 0
			if random.Intn(8) > 0 {
				segment := 1 + random.Intn(testSegments-1)
				age := []int{0, 0, 0, 1, ghostAges, ghostAges + 1}[random.Intn(6)]
				slot := record.MakeSlot(uint64(tag+random.Intn(2)), uint32(20+segment-age), segment, 8)
				words[number] = uint64(slot)
			}
		}
		wantNumber, want := last, isTaken
		for number := range slots {
			slot, rank := load(g.slot(number)), isForgotten
			switch {
			case s.isLive(slot):
				rank = isTaken
			case slot == 0:
				rank = isEmpty
			case s.isGhost(slot) && slot.Tag() == tag:
				rank = isOwnGhost
			case s.isGhost(slot):
				rank = isOtherGhost
			}
			if rank > want {
				wantNumber, want = number, rank
			}
		}
		number, rank := s.bestSlot(g, tag)
		if rank != want || rank > isTaken && number != wantNumber {
			t.Fatalf("slots %x: slot %d of rank %d, want slot %d of rank %d", words, number, rank, wantNumber, want)
		}
		seen[rank]++
	}
	if len(seen) != isOwnGhost+1 {
		t.Errorf("the ranks and their numbers are %v, want all ranks", seen)
	}
}
