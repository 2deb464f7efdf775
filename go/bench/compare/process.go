package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"larder.example/larder/bench"
)

const (
	// childVariable is the name of the environment variable that contains the order for the process
	// of one cache.
	childVariable = "LARDER_BENCH_CHILD"
	// programHeap is memory that each process allocates on Go's heap if its cache has room for all
	// items, as a real program would. Without it, the heap would be almost empty for caches that store
	// their bytes elsewhere, and the process would constantly run garbage collections.
	programHeap = 64 << 20
	// warmOps is the number of operations per item after which a full cache is in its steady state.
	warmOps = 2
	// A cache on Go's heap has a limit for its keys and values, not for its memory. open tries up to
	// tries limits, until the cache uses as much memory as larder, with a relative difference of at
	// most tolerance.
	tolerance, tries = 0.03, 8

	hugePagesFile = "/sys/kernel/mm/transparent_hugepage/enabled"
)

// order tells a child process which cache to open, and which load to run on it.
type order struct {
	Cache, Load, Folder, HugePages string
	Limit                          int64
}

// ready is the first message that the child process sends.
type ready struct {
	// Ops are the operations that the cache has.
	Ops []string
	// Resident is the memory since the cache was opened.
	Resident int64
}

// request asks the child process to run a round: one operation for some time. answer is the result
// of the round.
type request struct {
	Op   string
	Time time.Duration
}

type answer struct {
	bench.Result
	Error string
}

// process is a process with one cache.
type process struct {
	name    string
	command *exec.Cmd
	input   io.Closer
	to      *json.Encoder
	from    *json.Decoder
	ready   ready
	// rounds are the results of each operation, and resident is the memory after the last round.
	rounds   map[string][]bench.Result
	resident int64
}

// opener starts processes.
type opener struct {
	folder string
	// limits contains, for each cache on Go's heap, the limit that open has found for the last load.
	// It is the first guess for the next load.
	limits map[string]int64
	setting
	options
}

// open starts a process for a cache. For a full cache on Go's heap it searches for a limit at which
// the memory is target.
func (o opener) open(kind bench.Kind, load bench.Load, target int64) (*process, error) {
	what := order{kind.Name, load.Name, o.folder, o.hugePages, load.Limit}
	if !kind.OnHeap || !load.IsFull || target == 0 {
		return start(what, o.gogc)
	}
	// With GOGC=100 the collector lets the heap grow to twice its contents.
	what.Limit = target * 100 / int64(130+o.gogc)
	if found := o.limits[kind.Name]; found > 0 {
		what.Limit = found
	}
	for try := 1; ; try++ {
		p, err := start(what, o.gogc)
		if err != nil {
			return nil, err
		}
		of := float64(p.ready.Resident) / float64(target)
		if math.Abs(of-1) <= tolerance || try == tries {
			o.limits[kind.Name] = what.Limit
			return p, nil
		}
		p.stop()
		what.Limit = int64(float64(what.Limit) / of)
	}
}

// start starts a process for a cache, and waits until it can run rounds.
func start(what order, gogc int) (*process, error) {
	text, err := json.Marshal(what)
	if err != nil {
		return nil, err
	}
	command := exec.Command("/proc/self/exe")
	command.Env = append(os.Environ(), childVariable+"="+string(text), fmt.Sprint("GOGC=", gogc))
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	p := &process{name: what.Cache, command: command, input: input, to: json.NewEncoder(input),
		from: json.NewDecoder(output), rounds: map[string][]bench.Result{}}
	if err := p.from.Decode(&p.ready); err != nil {
		p.stop()
		return nil, fmt.Errorf("the process has ended: %w", err)
	}
	p.resident = p.ready.Resident
	return p, nil
}

// play runs a round.
func (p *process) play(op string, length time.Duration) error {
	if err := p.to.Encode(request{op, length}); err != nil {
		return err
	}
	var got answer
	if err := p.from.Decode(&got); err != nil {
		return err
	}
	if got.Error != "" {
		return errors.New(got.Error)
	}
	p.rounds[op] = append(p.rounds[op], got.Result)
	p.resident = got.Resident
	return nil
}

// stop closes the input of the process, which ends the process.
func (p *process) stop() {
	_ = p.input.Close()
	_ = p.command.Wait()
}

// child is the process for one cache.
func child(text string) error {
	var what order
	if err := json.Unmarshal([]byte(text), &what); err != nil {
		return err
	}
	if err := bench.HugePages(what.HugePages); err != nil {
		return err
	}
	load, err := bench.LoadOf(what.Load)
	if err != nil {
		return err
	}
	kind, err := bench.KindOf(what.Cache)
	if err != nil {
		return err
	}
	keys, err := load.Drawn(what.Folder)
	if err != nil {
		return err
	}
	var heap []byte
	if !load.IsFull {
		heap = make([]byte, programHeap)
	}
	defer runtime.KeepAlive(heap)
	debug.FreeOSMemory()
	before, err := bench.Resident()
	if err != nil {
		return err
	}
	cache, err := kind.Open(load.Items, load.Size, what.Limit)
	if err != nil {
		return err
	}
	if err := load.Fill(cache); err != nil {
		return err
	}
	return serve(bench.NewPlayer(load, cache, keys), load, before)
}

// serve warms the cache up and runs rounds until the input ends.
func serve(player *bench.Player, load bench.Load, before int64) error {
	var first ready
	for _, op := range load.Ops() {
		if player.Has(op) {
			first.Ops = append(first.Ops, op)
		}
	}
	count := 100_000
	if load.IsFull {
		count = warmOps * load.Items
	}
	warm, err := player.Play(first.Ops[0], time.Minute, count)
	if err != nil {
		return err
	}
	if !load.IsFull {
		// The reads have allocated memory that does not belong to the cache. Return it to the system
		// before measuring.
		debug.FreeOSMemory()
		if warm.Resident, err = bench.Resident(); err != nil {
			return err
		}
	}
	first.Resident = warm.Resident - before
	from, to := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	if err := to.Encode(first); err != nil {
		return err
	}
	for {
		var next request
		if err := from.Decode(&next); err != nil {
			return nil
		}
		var got answer
		if got.Result, err = player.Play(next.Op, next.Time, math.MaxInt); err != nil {
			got.Error = err.Error()
		}
		got.Resident -= before
		if err := to.Encode(got); err != nil {
			return err
		}
	}
}

// setHugePages writes "always" to the file with the kernel's setting.
func setHugePages(setting, file string) error {
	if setting != "always" || chosen(file) == setting {
		return nil
	}
	if err := os.WriteFile(file, []byte(setting), 0o644); err != nil {
		return fmt.Errorf("-hugepages always needs root: %w", err)
	}
	return nil
}

// keepHugePages returns a function that restores the kernel's setting.
func keepHugePages(file string) (restore func()) {
	before := chosen(file)
	return func() {
		if chosen(file) != before {
			_ = os.WriteFile(file, []byte(before), 0o644)
		}
	}
}

// chosen returns the word in brackets in the file with the kernel's setting.
func chosen(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	_, rest, _ := strings.Cut(string(text), "[")
	word, _, _ := strings.Cut(rest, "]")
	return word
}

// String returns the name of a column. With "madvise" only larder requests huge pages.
func (s setting) String() string {
	pages := s.hugePages
	if pages == "default" {
		pages = chosen(hugePagesFile)
	}
	return fmt.Sprintf("GOGC %d, huge pages %s", s.gogc, pages)
}
