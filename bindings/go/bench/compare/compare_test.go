package main

import (
	"log"
	"os"
	"path/filepath"
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
	got, err := measure(load, kinds, opener{t.TempDir(), map[string]int64{},
		options{rounds: 2, length: 5 * time.Millisecond, gogc: 100, hugePages: "default", draws: 1 << 17}})
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
	text.Reset()
	ratio{"test", "GetInto", "fastcache", "Get", 0.5}.print(&text, got)
	if !strings.HasPrefix(text.String(), "| test, GetInto beside Get, fastcache | ") {
		t.Errorf("the ratio is %s", &text)
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
	restore, err := setHugePages("always", file)
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(file); string(text) != "always" {
		t.Errorf("the setting is %q, want always", text)
	}
	restore()
	if text, _ := os.ReadFile(file); string(text) != "madvise" {
		t.Errorf("the setting is %q afterwards, want madvise", text)
	}
	if _, err := setHugePages("perhaps", file); err == nil {
		t.Error("an unknown setting is accepted")
	}
}

func TestSpreadShowsTheMedian(t *testing.T) {
	if got, want := spread([]float64{3, 1, 9}, "%.0f"), "3 (1–9)"; got != want {
		t.Errorf("spread = %q, want %q", got, want)
	}
}
