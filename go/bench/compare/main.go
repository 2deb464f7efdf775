// Command compare compares larder with other caches for Go and prints the tables of
// docs/benchmarks.md. Each cache runs in a separate process. The processes take turns, round by
// round, so that drift of the machine's speed affects all of them.
//
//	go run ./compare -gogc 100 -hugepages default
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"larder.example/larder/bench"
)

const usage = `Usage: go run ./compare [flags]

Prints a table for each load: nanoseconds of an operation with ten goroutines, the median of the
rounds (least to most), and the memory of the process less that before the cache was opened. Then it
prints the ratios of larder's times to those of others, beside the ratios asked for.

Every Get looks at the length and the first bytes of the value. Get copies the value into new
memory, GetInto into the caller's; View reads in place. otter, ristretto, theine and TQMemory return
the stored value, without a copy; their Set copies the value, and the key if they keep it, because
the caller reuses both. The time of a GetMany is that of each of its 16 keys. Where a cache has room
for all items, a miss ends the program, and the process has 64 MiB of heap, as a program does.

In the loads named "full" a get that misses is followed by a set ("aside"; with GetInto where there
is one), the hit ratio is shown, and the limits of the caches on Go's heap are set such that their
memory is that of larder. "aside, View" is the same with View.

-tags shared adds package larder/shared, which needs cgo and its library (make -C go).

`

type options struct {
	caches, loads, ops string
	rounds             int
	length             time.Duration
	// settle is the time between the filling and the first round.
	settle   time.Duration
	settings []setting
	isCPU    bool
	// draws is the number of drawn keys, a power of two.
	draws int
}

// setting is the configuration of the processes.
type setting struct {
	gogc      int
	hugePages string
}

// settings returns each value of GOGC with each setting of huge pages.
func settings(gogc, hugePages string) (all []setting, err error) {
	for percent := range strings.SplitSeq(gogc, ",") {
		number, err := strconv.Atoi(percent)
		if err != nil || number < 1 {
			return nil, fmt.Errorf("-gogc %s: want numbers above 0, separated by commas", gogc)
		}
		for word := range strings.SplitSeq(hugePages, ",") {
			if !slices.Contains([]string{"default", "never", "always"}, word) {
				return nil, fmt.Errorf("-hugepages %s: want default, never or always", hugePages)
			}
			all = append(all, setting{number, word})
		}
	}
	return all, nil
}

func main() {
	log.SetFlags(0)
	if text := os.Getenv(childVariable); text != "" {
		if err := child(text); err != nil {
			log.Fatal(err)
		}
		return
	}
	o := options{draws: bench.Draws}
	flag.StringVar(&o.caches, "caches", strings.Join(names(), ","), "caches to measure")
	flag.StringVar(&o.loads, "loads", "", "measure the loads whose names contain this, such as 10 KiB or full")
	flag.StringVar(&o.ops, "ops", "", "measure the operations whose names contain this, such as Set")
	flag.IntVar(&o.rounds, "rounds", 7, "rounds of each operation")
	flag.DurationVar(&o.length, "time", 200*time.Millisecond, "duration of a round")
	flag.DurationVar(&o.settle, "settle", 5*time.Second,
		"time after the filling for what caches do in the background")
	gogc := flag.String("gogc", "100", "GOGC of the processes; with 100,400 every load is measured twice")
	hugePages := flag.String("hugepages", "default",
		"default: as the kernel's setting is; never: without, by prctl in the processes;\n"+
			"always: writes the kernel's setting, which needs root, and restores it at the end;\n"+
			"never,always measures all twice")
	flag.BoolVar(&o.isCPU, "cpu", false, "print processor time: on a busy machine it varies less")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	var err error
	if o.settings, err = settings(*gogc, *hugePages); err == nil {
		err = run(o)
	}
	if err != nil {
		log.Fatal("compare: ", err)
	}
}

// names returns the names of all caches.
func names() (all []string) {
	for _, kind := range bench.Kinds {
		all = append(all, kind.Name)
	}
	return all
}

func run(o options) error {
	var kinds []bench.Kind
	for name := range strings.SplitSeq(o.caches, ",") {
		kind, err := bench.KindOf(name)
		if err != nil {
			return err
		}
		kinds = append(kinds, kind)
	}
	// Measure larder first: the limits of caches on Go's heap depend on the memory that larder uses.
	if at := slices.IndexFunc(kinds, func(k bench.Kind) bool { return k.Name == "larder" }); at > 0 {
		kinds[0], kinds[at] = kinds[at], kinds[0]
	}
	folder, err := os.MkdirTemp("", "larder-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	restore := keepHugePages(hugePagesFile)
	defer restore()
	onSignal(func() {
		restore()
		_ = os.RemoveAll(folder)
	})
	var all []column
	for _, s := range o.settings {
		tables, err := measureAll(kinds, opener{folder, map[string]int64{}, s, o})
		if err != nil {
			return err
		}
		all = append(all, column{s, tables})
	}
	printRatios(os.Stdout, all)
	return nil
}

// measureAll measures all loads with one setting.
func measureAll(kinds []bench.Kind, o opener) (all []table, err error) {
	if err := setHugePages(o.setting.hugePages, hugePagesFile); err != nil {
		return nil, err
	}
	fmt.Printf("%s;\nGOMAXPROCS %d, %v, %d goroutines, %d rounds of %v; %s in ns\n\n",
		bench.Versions(bench.Compared...), runtime.GOMAXPROCS(0), o.setting, bench.Goroutines,
		o.rounds, o.length, map[bool]string{false: "time", true: "processor time"}[o.isCPU])
	for _, load := range bench.Loads {
		if !strings.Contains(load.Name, o.loads) {
			continue
		}
		t, err := measure(load, kinds, o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", load.Name, err)
		}
		t.print(os.Stdout)
		fmt.Println()
		all = append(all, t)
	}
	return all, nil
}

// onSignal calls a function when the program is interrupted, and ends the program. The processes
// for the caches end because their input ends.
func onSignal(clean func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		clean()
		os.Exit(1)
	}()
}

// measure measures a load on all caches.
func measure(load bench.Load, kinds []bench.Kind, o opener) (t table, err error) {
	t = table{load: load, isCPU: o.isCPU}
	if err := load.Draw(o.folder, o.draws); err != nil {
		return t, err
	}
	// The caches on Go's heap get the same memory as larder, the first cache.
	var target int64
	for _, kind := range kinds {
		p, err := o.open(kind, load, target)
		if err != nil {
			return t, fmt.Errorf("%s: %w", kind.Name, err)
		}
		// Keep the process until all caches are measured with this load, because the processes take
		// turns.
		defer p.stop()
		if kind.Name == "larder" {
			target = p.ready.Resident
		}
		t.rows = append(t.rows, p)
	}
	time.Sleep(o.settle)
	for _, op := range load.Ops() {
		if !strings.Contains(op, o.ops) {
			continue
		}
		for range o.rounds {
			for _, p := range t.rows {
				if !slices.Contains(p.ready.Ops, op) {
					continue
				}
				if err := p.play(op, o.length); err != nil {
					return t, fmt.Errorf("%s: %w", p.name, err)
				}
			}
		}
	}
	return t, nil
}
