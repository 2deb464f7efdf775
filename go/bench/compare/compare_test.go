package main

import (
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"larder.example/larder/bench"
)

func TestMain(m *testing.M) {
	bench.Loads = append(bench.Loads,
		bench.Load{Name: "test", Items: 1000, Size: 100, Limit: 64 << 20},
		bench.Load{Name: "test, full", Items: 100_000, Size: 1000, Limit: 40 << 20, IsFull: true})
	if text := os.Getenv(childVariable); text != "" {
		if err := child(text); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

func measured(t *testing.T, name string, caches ...string) table {
	t.Helper()
	load, err := bench.LoadOf(name)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []bench.Kind
	for _, cache := range caches {
		kind, err := bench.KindOf(cache)
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, kind)
	}
	got, err := measure(load, kinds, opener{t.TempDir(), map[string]int64{}, setting{100, "default"},
		options{rounds: 2, length: 5 * time.Millisecond, draws: 1 << 17}})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestProcessesMeasureALoad(t *testing.T) {
	got := measured(t, "test", "larder", "fastcache")
	for op, want := range map[string]int{"Get": 2, "View": 0, "Set": 2} {
		if times := got.times("fastcache", op); len(times) != want {
			t.Errorf("fastcache has %d times of %s, want %d", len(times), op, want)
		}
	}
	var text strings.Builder
	got.print(&text)
	if !strings.Contains(text.String(), "\n| larder |") {
		t.Errorf("the table has no row of larder:\n%s", &text)
	}
	if cell := (ratio{"test", "GetInto", "fastcache", "Get", 0.5}).cell(got); cell == "" {
		t.Error("GetInto has no ratio to fastcache's Get")
	}
	if cell := (ratio{"test", "Get", "BigCache", "Get", 0.5}).cell(got); cell != "" {
		t.Errorf("the ratio to a cache that was not measured is %s", cell)
	}
}

func TestALimitIsFoundWithTheMemoryOfLarder(t *testing.T) {
	got := measured(t, "test, full", "larder", "TQMemory")
	ours, theirs := got.rows[0].ready.Resident, got.rows[1].ready.Resident
	if difference := float64(theirs)/float64(ours) - 1; difference < -0.05 || difference > 0.05 {
		t.Errorf("TQMemory takes %d bytes, larder %d, want at most 5 %% of difference", theirs, ours)
	}
	if hits := got.rows[1].hitRatio(); hits <= 0 || hits >= 1 {
		t.Errorf("the hit ratio is %v, want one between 0 and 1", hits)
	}
}

func TestTheKernelsSettingIsRestored(t *testing.T) {
	file := filepath.Join(t.TempDir(), "enabled")
	if err := os.WriteFile(file, []byte("always [madvise] never\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	restore := keepHugePages(file)
	if err := setHugePages("always", file); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(file); string(text) != "always" {
		t.Errorf("the setting is %q, want always", text)
	}
	restore()
	if text, _ := os.ReadFile(file); string(text) != "madvise" {
		t.Errorf("the setting is %q afterwards, want madvise", text)
	}
}

func TestFlagsGiveAllSettings(t *testing.T) {
	got, err := settings("100,400", "never,always")
	want := []setting{{100, "never"}, {100, "always"}, {400, "never"}, {400, "always"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("settings = %v, %v, want %v", got, err, want)
	}
	for _, wrong := range [][2]string{{"0", "never"}, {"100", "perhaps"}} {
		if _, err := settings(wrong[0], wrong[1]); err == nil {
			t.Errorf("-gogc %s -hugepages %s is accepted", wrong[0], wrong[1])
		}
	}
}

func TestRatiosHaveAColumnForEachSetting(t *testing.T) {
	round := func(ops int) map[string][]bench.Result {
		return map[string][]bench.Result{"Get": {{Ops: ops, Gets: 1, Hits: 1, Wall: 1000}}}
	}
	load := bench.Load{Name: "100 B, uniform"}
	one := column{setting{100, "never"}, []table{{load: load, rows: []*process{
		{name: "larder", rounds: round(20)}, {name: "fastcache", rounds: round(10)}}}}}
	var text strings.Builder
	printRatios(&text, []column{one, {setting{400, "never"}, nil}})
	want := "| larder's time, of theirs | asked | GOGC 100, huge pages never | GOGC 400, huge pages never |\n" +
		"|---|--:|--:|--:|\n" +
		"| fastcache: 100 B, uniform, Get | ≤ 0.95 | 0.50 (0.50–0.50) |  |\n"
	if text.String() != want {
		t.Errorf("the ratios are\n%s, want\n%s", &text, want)
	}
}

func TestSpreadShowsTheMedian(t *testing.T) {
	if got, want := spread([]float64{3, 1, 9}, "%.0f"), "3 (1–9)"; got != want {
		t.Errorf("spread = %q, want %q", got, want)
	}
}
