// Program traces replays request traces on the pure-Go engine and on the Rust engine, with the same
// memory, and prints the hit ratios of both.
//
//	LARDER=…/target/release/larder go run ./traces [-sweep] [trace ...]
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"larder.example/larder/internal/engine"
)

// size is one row of the result: a trace, the factor by which the sizes of its items are
// multiplied, and the memory of the cache.
type size struct {
	trace  string
	scale  uint32
	memory int64
}

// sizes are the sizes of the table in the traces' README, and a cache of 64 MiB for each trace.
var sizes = []size{
	{"adapt_size", 1, 8_392_133},
	{"adapt_size", 1, 27_973_779},
	{"adapt_size", 1, 64 << 20},
	{"orm-busy-2M", 16, 8_588_879},
	{"orm-busy-2M", 16, 28_629_598},
	{"orm-busy-2M", 16, 64 << 20},
	{"synth-kv-ttl", 16, 13_753_682},
	{"synth-kv-ttl", 16, 45_845_609},
	{"synth-kv-ttl", 16, 64 << 20},
	{"synth-kv-write", 16, 14_006_480},
	{"synth-kv-write", 16, 46_688_267},
	{"synth-kv-write", 16, 64 << 20},
	{"w106-1M", 16, 5_793_184},
	{"w106-1M", 16, 19_310_616},
	{"w106-1M", 16, 64 << 20},
	{"web07", 16, 10_182_296},
	{"web07", 16, 32 << 20},
	{"web07", 16, 64 << 20},
}

var (
	folder  = flag.String("folder", os.Getenv("LARDER_TRACES"), "folder of the traces")
	rounds  = flag.Int("rounds", 3, "replays on the Go engine, each with another hash seed")
	sweep   = flag.Bool("sweep", false, "remove expired items each second")
	itemMax = flag.Int("item-max", 0,
		"largest item of both engines; 0 is that of the Go engine for the memory")
)

func main() {
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(),
			"Prints a table of hit ratios of the Go engine on traces, and of the Rust engine if LARDER names it.")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *folder == "" {
		*folder = "../../../shared/traces"
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "traces:", err)
		os.Exit(1)
	}
}

func run() error {
	fmt.Println("| trace | memory | Rust | Go | spread | Go / Rust | without ghosts |")
	fmt.Println("|---|--:|--:|--:|--:|--:|--:|")
	var name string
	var requests *trace
	for _, size := range sizes {
		if flag.NArg() > 0 && !slices.Contains(flag.Args(), size.trace) {
			continue
		}
		path := filepath.Join(*folder, size.trace+".csv.zst")
		if name != size.trace {
			var err error
			if requests, err = read(path, size.scale); err != nil {
				return err
			}
			name = size.trace
		}
		if err := compare(path, requests, size); err != nil {
			return err
		}
	}
	return nil
}

// compare prints a row.
func compare(path string, t *trace, size size) error {
	limit := *itemMax
	with, most, err := replays(t, engine.Config{MemoryBytes: size.memory, ItemMax: limit})
	if err != nil {
		return err
	}
	without, _, err := replays(t,
		engine.Config{MemoryBytes: size.memory, ItemMax: limit, NoGhosts: true})
	if err != nil {
		return err
	}
	rust := "–"
	ratio := "–"
	if tool := os.Getenv("LARDER"); tool != "" {
		if limit == 0 {
			limit = most
		}
		hits, err := replayRust(tool, path, size, limit)
		if err != nil {
			return err
		}
		rust, ratio = fmt.Sprintf("%.4f", hits), fmt.Sprintf("%.4f", mean(with)/hits)
	}
	fmt.Printf("| %s | %d | %s | %.4f | %.4f | %s | %+.2f %% |\n", size.trace, size.memory, rust,
		mean(with), slices.Max(with)-slices.Min(with), ratio, (mean(without)/mean(with)-1)*100)
	return nil
}

func mean(numbers []float64) (sum float64) {
	for _, number := range numbers {
		sum += number
	}
	return sum / float64(len(numbers))
}

// replays returns the hit ratios of several replays on the Go engine, and its largest item.
func replays(t *trace, config engine.Config) (hits []float64, itemMax int, err error) {
	for range *rounds {
		found, most, err := replay(t, config)
		if err != nil {
			return nil, 0, err
		}
		hits, itemMax = append(hits, found), most
	}
	return hits, itemMax, nil
}

// replay plays a trace on a new cache, in virtual time: a get that misses is followed by a set.
func replay(t *trace, config engine.Config) (hitRatio float64, itemMax int, err error) {
	now := int64(0)
	config.Now = func() int64 { return 1000 + now*1000 }
	cache, err := engine.New(config)
	if err != nil {
		return 0, 0, err
	}
	defer cache.Close()
	var value, read []byte
	gets, hits := 0, 0
	for at, r := range t.requests {
		if second := t.second(at); second != now {
			now = second
			if *sweep {
				cache.SweepNow()
			}
		}
		key := fmt.Sprintf("%016x", mix(uint64(r.id)))
		if !r.isSet {
			gets++
			var ok bool
			if read, ok = cache.GetInto(read[:0], key); ok {
				hits++
				continue
			}
		}
		bytes := max(int(r.bytes)-len(key), 0)
		value = slices.Grow(value[:0], bytes)[:bytes]
		// A read of a refused item is a miss.
		_, _ = cache.Set(key, value, 0, int64(r.seconds)*1000)
	}
	return float64(hits) / float64(gets), cache.ItemMax(), nil
}

// replayRust runs the Rust tool.
func replayRust(tool, path string, size size, itemMax int) (float64, error) {
	output, err := exec.Command(tool, "replay", "--trace", path,
		"--scale", strconv.Itoa(int(size.scale)), "--memory", strconv.FormatInt(size.memory, 10),
		"--item-bytes-max", strconv.Itoa(itemMax)).Output()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", tool, err)
	}
	for line := range strings.Lines(string(output)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "miss_ratio="); ok {
			misses, err := strconv.ParseFloat(text, 64)
			return 1 - misses, err
		}
	}
	return 0, fmt.Errorf("%s prints no miss_ratio", tool)
}
