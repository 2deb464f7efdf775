//go:build larder_steps

package shard

import (
	"fmt"
	"hash/maphash"
	"testing"

	"larder.example/larder/internal/engine/pins"
	"larder.example/larder/internal/engine/steps"
)

// These tests interleave one reader and one writer in every possible way: the reader starts after
// any step of the writer, waits at any of its own steps, and continues after any later step of the
// writer. The steps listed in the comment of a test are necessary in this order: the test fails if
// one of them is removed, or if two are exchanged.

// scene is a reader and a writer that use a shard at the same time.
type scene struct {
	shard *Shard
	table *pins.Table
	// key is the key that the reader looks up.
	key string
	// stays is true if the writer does not remove the item, so that the reader must find it.
	stays bool
	write func()
}

// interleaving runs a scene in one way.
type interleaving struct {
	scene scene
	// The reader starts after a step of the writer, waits at one of its own steps, and continues
	// after a later step of the writer. Step 0 of the writer is its start. A step of 0 for the reader
	// means that it never waits.
	start, wait, resume int
	// The numbers of the steps so far.
	reader, writer int
	// The names of the steps at which the reader starts, waits and continues.
	started, waited, resumed steps.Step
	// waits receives a message when the reader waits, and is closed when the reader is done.
	waits, goes chan struct{}
	isWaiting   bool
	cell        *pins.Cell
	found       Found
	ok          bool
}

// at is called at each step. Only one goroutine runs at a time.
func (i *interleaving) at(step steps.Step) {
	if !step.OfReader() {
		i.writer++
		i.afterWriter(step)
	} else if i.reader++; i.reader == i.wait {
		i.waited = step
		i.waits <- struct{}{}
		<-i.goes
	}
}

func (i *interleaving) afterWriter(step steps.Step) {
	if i.writer == i.start {
		i.started = step
		go i.read()
		_, i.isWaiting = <-i.waits
	}
	if i.writer == i.resume {
		i.endReader(step)
	}
}

func (i *interleaving) read() {
	defer close(i.waits)
	hash := maphash.String(i.scene.shard.config.Seed, i.scene.key)
	i.found, i.ok = i.scene.shard.Find(i.cell, hash, i.scene.key)
}

func (i *interleaving) endReader(step steps.Step) {
	if i.isWaiting {
		i.resumed, i.isWaiting = step, false
		i.goes <- struct{}{}
		<-i.waits
	}
}

func (i *interleaving) run(t *testing.T) {
	i.cell = i.scene.table.Claim()
	i.waits, i.goes = make(chan struct{}), make(chan struct{})
	steps.Set(i.at)
	defer steps.Set(nil)
	i.afterWriter("writer has not begun")
	i.scene.write()
	i.endReader("writer is done")
	if i.writer < i.start {
		return
	}
	when := fmt.Sprintf("a reader that starts when the %s", i.started)
	if i.waited != "" {
		when += fmt.Sprintf(", and waits from when the %s to when the %s,", i.waited, i.resumed)
	}
	if !i.ok && i.scene.stays {
		t.Fatalf("%s misses %q", when, i.scene.key)
	}
	// The reader's cell still pins the item that it found.
	if i.ok && !i.found.Record.HasKey(i.found.Record.Header(), i.scene.key) {
		t.Fatalf("%s holds a record that is overwritten", when)
	}
}

// interleave runs a scene in every possible way.
func interleave(t *testing.T, prepare func() scene) {
	for start := 0; ; start++ {
		readerSteps := 0
		for wait := 0; wait <= readerSteps; wait++ {
			for resume := start + 1; ; resume++ {
				i := &interleaving{scene: prepare(), start: start, wait: wait, resume: resume}
				i.run(t)
				if i.writer < start {
					return
				}
				readerSteps = max(readerSteps, i.reader)
				if resume > i.writer {
					break
				}
			}
		}
	}
}

// sealedItem returns a shard with one item, in a sealed segment with others.
func sealedItem(t *testing.T) (s *Shard, table *pins.Table, number int32) {
	s, table = openShard(t)
	s.set(t, "key", 100)
	cell := table.Claim()
	number = int32(s.mustFind(t, cell, "key").Slot.Segment())
	cell.Release(pins.None)
	for at := range 5 {
		s.set(t, fmt.Sprint("neighbour", at), 100)
	}
	s.Lock()
	s.seal(small)
	s.Unlock()
	return s, table, number
}

// overwrite stores items until the freed memory of a segment is reused.
func (s *Shard) overwrite(t *testing.T) {
	steps.At("writer has freed a segment")
	for at := range 2 * testSegmentBytes / 500 {
		s.set(t, fmt.Sprint("other", at), 500)
	}
}

// TestAReaderHoldsWhatItFoundWhileItsSegmentIsEvicted requires that the reader pins and then checks
// the generation again, and that the evictor stores the new generation and then checks the pins.
func TestAReaderHoldsWhatItFoundWhileItsSegmentIsEvicted(t *testing.T) {
	interleave(t, func() scene {
		s, table, number := sealedItem(t)
		return scene{s, table, "key", false, func() {
			s.Lock()
			s.evict(number, keepNothing)
			s.Unlock()
			s.overwrite(t)
		}}
	})
}

// TestAReaderFindsAnItemThatMoves requires that the evictor stores the new place and then the new
// generation, and that the reader checks the generation each time before it loads the slot again.
func TestAReaderFindsAnItemThatMoves(t *testing.T) {
	interleave(t, func() scene {
		s, table, number := sealedItem(t)
		return scene{s, table, "key", true, func() {
			s.Lock()
			if !s.compact(number) {
				t.Fatal("the segment cannot be compacted")
			}
			s.Unlock()
			s.overwrite(t)
		}}
	})
}

// inGroup0 returns keys of group 0 of the smallest index. The next split moves some of them but not
// the others.
func (s *Shard) inGroup0(moving bool, count int) (keys []string) {
	bit := uint64(0)
	if moving {
		bit = 1
	}
	for at := 0; len(keys) < count; at++ {
		key := fmt.Sprint("key", at)
		hash := maphash.String(s.config.Seed, key)
		if groupNumber(s.level.Load(), hash) == 0 && s.tag(hash)&1 == bit {
			keys = append(keys, key)
		}
	}
	return keys
}

// split splits group 0.
func (s *Shard) split() {
	const crowded = 1 << 20
	s.Lock()
	s.items += crowded
	s.grow()
	s.items -= crowded
	s.Unlock()
}

// TestAReaderFindsAnItemWhoseGroupIsSplit requires that the writer fills the group, then raises the
// level, then clears the slots; and that the reader checks the level again after a miss.
func TestAReaderFindsAnItemWhoseGroupIsSplit(t *testing.T) {
	for _, moves := range []bool{false, true} {
		interleave(t, func() scene {
			s, table := openShard(t)
			for _, key := range append(s.inGroup0(true, 2), s.inGroup0(false, 2)...) {
				s.set(t, key, 10)
			}
			return scene{s, table, s.inGroup0(moves, 1)[0], true, s.split}
		})
	}
}

// TestAReaderFindsAnItemWhoseChainIsJoined requires that the writer copies the slots to the first
// group, then replaces the link, then changes the level a second time, then clears the overflow
// group; and that the reader checks the level again.
func TestAReaderFindsAnItemWhoseChainIsJoined(t *testing.T) {
	// One item moves, and an item of the overflow group takes its slot; the item of the last slot
	// replaces the link.
	for stays := range slots {
		interleave(t, func() scene {
			s, table := openShard(t)
			staying := s.inGroup0(false, slots)
			for _, key := range append(s.inGroup0(true, 1), staying...) {
				s.set(t, key, 10)
			}
			if link := load(s.groupIn(s.pages, 0).slot(last)); !link.IsLink() {
				t.Fatalf("group 0 does not overflow: its last slot is %x", link)
			}
			return scene{s, table, staying[stays], true, func() {
				s.split()
				if link := load(s.groupIn(s.pages, 0).slot(last)); link.IsLink() {
					t.Fatal("the chain is not joined")
				}
			}}
		})
	}
}

// TestEveryStepIsReached fails if the code no longer marks a step, because then the other tests
// would prove less.
func TestEveryStepIsReached(t *testing.T) {
	missing := map[steps.Step]bool{
		steps.LevelLoaded: true, steps.LinkFollowed: true, steps.SlotLoaded: true,
		steps.GenerationChecked: true, steps.SegmentPinned: true, steps.GenerationLoaded: true,
		steps.GroupFilled: true, steps.LevelRaised: true, steps.SlotsCleared: true,
		steps.ChainCopied: true, steps.ChainCut: true, steps.LevelChanged: true,
		steps.OverflowCleared: true, steps.RecordMoved: true, steps.GenerationRaised: true,
		steps.PinsScanned: true,
	}
	steps.Set(func(step steps.Step) { delete(missing, step) })
	defer steps.Set(nil)
	s, table, number := sealedItem(t)
	s.Lock()
	s.compact(number)
	s.Unlock()
	for _, key := range append(s.inGroup0(true, 1), s.inGroup0(false, slots)...) {
		s.set(t, key, 10)
	}
	cell := table.Claim()
	s.mustFind(t, cell, s.inGroup0(false, slots)[last])
	s.split()
	for step := range missing {
		t.Errorf("no test covers the case that the %s", step)
	}
}
