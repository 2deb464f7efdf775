package pins

import (
	"sync"
	"testing"
)

// TestATableGrowsUntilItsLimit claims all cells. Scans must find each of them.
func TestATableGrowsUntilItsLimit(t *testing.T) {
	table := NewTable(4)
	most, _ := Cells()
	seen := map[*Cell]bool{}
	for cell := table.Claim(); cell != nil; cell = table.Claim() {
		if seen[cell] {
			t.Fatal("a cell is claimed twice")
		}
		seen[cell] = true
		cell.Pin(Segment(3, len(seen)))
	}
	if len(seen) != most {
		t.Errorf("%d cells, want %d", len(seen), most)
	}
	pinned := 0
	table.Each(3, func(int) { pinned++ })
	for number := 1; number <= len(seen); number++ {
		if !table.IsPinned(Segment(3, number)) {
			t.Errorf("the scan misses the pin of segment %d", number)
		}
	}
	if pinned != len(seen) || table.IsPinned(Segment(3, 0)) || table.IsPinned(Segment(2, 1)) {
		t.Errorf("the scan finds %d of %d pins, or wrong ones", pinned, len(seen))
	}
	for cell := range seen {
		if table.IsIdle() {
			t.Fatal("the table is idle while cells are claimed")
		}
		cell.Release(Hit)
	}
	if hits, misses := table.Counts(); !table.IsIdle() || hits != uint64(len(seen)) || misses != 0 {
		t.Errorf("after the release: idle %v, %d hits, %d misses", table.IsIdle(), hits, misses)
	}
}

// TestAFewOperationsDoNotGrowATable checks that the table stays small, because a scan of many cells
// costs writers time.
func TestAFewOperationsDoNotGrowATable(t *testing.T) {
	table := NewTable(4)
	for range 10_000 {
		first, second := table.Claim(), table.Claim()
		first.Release(Hit)
		second.Release(Miss)
	}
	if count := table.count.Load(); count != 1 {
		t.Errorf("%d blocks, want 1", count)
	}
}

// TestGoroutinesGrowATableTogether claims cells from several goroutines at the same time.
func TestGoroutinesGrowATableTogether(t *testing.T) {
	most, _ := Cells()
	for range 20 {
		table := NewTable(4)
		var all sync.WaitGroup
		claimed := make([]int, 8)
		for worker := range claimed {
			all.Add(1)
			go func() {
				defer all.Done()
				for table.Claim() != nil {
					claimed[worker]++
				}
			}()
		}
		all.Wait()
		sum := 0
		for _, count := range claimed {
			sum += count
		}
		if sum != most {
			t.Fatalf("%d cells were claimed, want %d", sum, most)
		}
	}
}
