package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"larder.example/larder/bench"
)

// table holds the measurements of a load.
type table struct {
	load  bench.Load
	isCPU bool
	rows  []*process
}

// times returns the nanoseconds of an operation, by round.
func (t table) times(cache, op string) (times []float64) {
	for _, p := range t.rows {
		if p.name != cache {
			continue
		}
		for _, round := range p.rounds[op] {
			taken := round.Wall
			if t.isCPU {
				taken = round.CPU
			}
			times = append(times, float64(taken)/float64(round.Ops))
		}
	}
	return times
}

// hitRatio returns the ratio of hits to reads of a process.
func (p *process) hitRatio() float64 {
	var hits, gets int
	for _, rounds := range p.rounds {
		for _, round := range rounds {
			hits, gets = hits+round.Hits, gets+round.Gets
		}
	}
	return float64(hits) / float64(gets)
}

// spread formats the median of numbers with their minimum and maximum.
func spread(numbers []float64, format string) string {
	if len(numbers) == 0 {
		return ""
	}
	sorted := slices.Sorted(slices.Values(numbers))
	text := func(number float64) string { return fmt.Sprintf(format, number) }
	return fmt.Sprintf("%s (%s–%s)", text(sorted[len(sorted)/2]), text(sorted[0]), text(sorted[len(sorted)-1]))
}

// print prints a row for each cache. For a full cache it prints the memory after its limit was
// found, and the memory after the last round.
func (t table) print(to io.Writer) {
	ops := t.load.Ops()
	columns := append(slices.Clone(ops), "RSS")
	if t.load.IsFull {
		columns = append(slices.Clone(ops), "hit ratio", "RSS, at the end")
	}
	fmt.Fprintf(to, "| %s | %s |\n|---|%s\n", t.load.Name, strings.Join(columns, " | "),
		strings.Repeat("--:|", len(columns)))
	var target int64
	for _, p := range t.rows {
		fmt.Fprintf(to, "| %s |", p.name)
		for _, op := range ops {
			fmt.Fprintf(to, " %s |", spread(t.times(p.name, op), "%.0f"))
		}
		if !t.load.IsFull {
			fmt.Fprintf(to, " %d MiB |\n", p.ready.Resident>>20)
			continue
		}
		fmt.Fprintf(to, " %.3f | %d, %d MiB |\n", p.hitRatio(), p.ready.Resident>>20, p.resident>>20)
		if p.name == "larder" {
			target = p.resident
		}
	}
	for _, p := range t.rows {
		kind, _ := bench.KindOf(p.name)
		of := float64(p.resident) / float64(target)
		if t.load.IsFull && kind.OnHeap && target > 0 && math.Abs(of-1) > 0.05 {
			fmt.Fprintf(to, "\n%s ended with %.2f times the memory of larder.\n", p.name, of)
		}
	}
}

// ratio compares an operation of larder with an operation of another cache.
type ratio struct {
	load, op, cache, theirs string
	// most is the required ratio, or 0 if there is no requirement.
	most float64
}

var ratios = []ratio{
	{"100 B, uniform", "Get", "fastcache", "Get", 0.95},
	{"100 B, uniform", "Get", "freecache", "Get", 0.85},
	{"100 B, uniform", "Get", "BigCache", "Get", 0.85},
	{"100 B, zipf", "Get", "fastcache", "Get", 0.85},
	{"100 B, zipf", "Get", "BigCache", "Get", 0},
	{"100 B, uniform", "GetInto", "fastcache", "GetInto", 0.8},
	{"100 B, zipf", "GetInto", "fastcache", "GetInto", 0.8},
	{"100 B, uniform", "View", "fastcache", "GetInto", 0.7},
	{"100 B, zipf", "View", "fastcache", "GetInto", 0.7},
	{"100 B, uniform", "View", "TQMemory", "Get", 0},
	{"10 KiB, uniform", "Get", "fastcache", "Get", 0},
	{"10 KiB, uniform", "GetInto", "fastcache", "GetInto", 0.85},
	{"10 KiB, uniform", "View", "TQMemory", "Get", 0.2},
	{"100 B, uniform", "Set", "freecache", "Set", 1},
	{"100 B, zipf", "Set", "freecache", "Set", 1},
	{"100 B, zipf", "Set", "BigCache", "Set", 0},
	{"10 KiB, uniform", "Set", "fastcache", "Set", 1.2},
	{"10 KiB, uniform", "Set", "freecache", "Set", 1},
	{"full, 1 KB, uniform", "aside", "fastcache", "aside", 0.9},
	{"full, 1 KB, zipf", "aside", "fastcache", "aside", 0.85},
}

// column holds the measurements with one setting.
type column struct {
	setting setting
	tables  []table
}

// table returns the measurements of a load.
func (c column) table(load string) table {
	for _, t := range c.tables {
		if t.load.Name == load {
			return t
		}
	}
	return table{}
}

// printRatios prints the ratios within rounds, and the ratios of the hit ratios to the hit ratio of
// otter.
func printRatios(to io.Writer, all []column) {
	names := []string{}
	for _, c := range all {
		names = append(names, c.setting.String())
	}
	fmt.Fprintf(to, "| larder's time, of theirs | asked | %s |\n|---|--:|%s\n", strings.Join(names, " | "),
		strings.Repeat("--:|", len(names)))
	for _, r := range ratios {
		asked := ""
		if r.most > 0 {
			asked = fmt.Sprintf("≤ %.2f", r.most)
		}
		printRow(to, r.name(), asked, all, func(c column) string { return r.cell(c.table(r.load)) })
	}
	for _, load := range bench.Loads {
		printRow(to, "hit ratio, of otter's: "+load.Name, "≥ 1", all,
			func(c column) string { return hitsOfOtter(c.table(load.Name)) })
	}
}

// printRow prints a row, unless all cells are empty.
func printRow(to io.Writer, name, asked string, all []column, cell func(column) string) {
	var cells []string
	isEmpty := true
	for _, c := range all {
		cells = append(cells, cell(c))
		isEmpty = isEmpty && cells[len(cells)-1] == ""
	}
	if !isEmpty {
		fmt.Fprintf(to, "| %s | %s | %s |\n", name, asked, strings.Join(cells, " | "))
	}
}

func hitsOfOtter(t table) string {
	hits := map[string]float64{}
	for _, p := range t.rows {
		hits[p.name] = p.hitRatio()
	}
	if !t.load.IsFull || hits["larder"] == 0 || hits["otter"] == 0 {
		return ""
	}
	return fmt.Sprintf("%.3f", hits["larder"]/hits["otter"])
}

func (r ratio) name() string {
	name := r.op
	if r.op != r.theirs {
		name += ", of its " + r.theirs
	}
	return fmt.Sprintf("%s: %s, %s", r.cache, r.load, name)
}

// cell returns the ratio, and its spread.
func (r ratio) cell(t table) string {
	ours, theirs := t.times("larder", r.op), t.times(r.cache, r.theirs)
	var ratios []float64
	for round := range min(len(ours), len(theirs)) {
		ratios = append(ratios, ours[round]/theirs[round])
	}
	return spread(ratios, "%.2f")
}
