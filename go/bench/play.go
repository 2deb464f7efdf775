package bench

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Goroutines is the number of goroutines that use a cache at the same time.
const Goroutines = 10

// Player runs the operations of a benchmark on a cache, in several goroutines.
type Player struct {
	load  Load
	cache Cache
	keys  Keys
	// at is the position in the keys at which each goroutine continues.
	at [Goroutines]int
}

// NewPlayer returns a player whose goroutines begin at different positions in the keys.
func NewPlayer(load Load, cache Cache, keys Keys) *Player {
	p := &Player{load: load, cache: cache, keys: keys}
	for number := range p.at {
		p.at[number] = number * keys.Len() / Goroutines / Many * Many
	}
	return p
}

// Result is the result of a round.
type Result struct {
	// Ops is the number of keys used, Gets is the number of keys read, and Hits is the number of keys
	// found.
	Ops, Gets, Hits int
	// Wall is the elapsed time, and CPU is the processor time of the process.
	Wall, CPU time.Duration
	// Resident is the memory of the process after the round.
	Resident int64
}

// worker is a goroutine.
type worker struct {
	load             Load
	cache            Cache
	keys             Keys
	dst, value       []byte
	batch            [Many]string
	used, gets, hits int
	wrong            string
}

// Has reports whether the cache has an operation.
func (p *Player) Has(op string) bool {
	_, has := (&worker{load: p.load, cache: p.cache}).stepOf(op)
	return has
}

// stepOf returns the function that executes an operation with the key at a position, or with [Many]
// keys.
func (w *worker) stepOf(op string) (step func(at int), has bool) {
	into, readsInto := w.cache.(IntoGetter)
	viewer, views := w.cache.(Viewer)
	several, readsMany := w.cache.(ManyGetter)
	get := w.cache.Get
	read := get
	if readsInto {
		read = func(key string) ([]byte, bool) { return into.GetInto(w.dst, key) }
	}
	var key string
	look := func(value []byte) { w.see(key, value) }
	switch op {
	case "Get":
		return func(at int) { w.get(w.keys.At(at), get) }, true
	case "GetInto":
		return func(at int) { w.get(w.keys.At(at), read) }, readsInto
	case "View":
		return func(at int) {
			key = w.keys.At(at)
			w.gets++
			viewer.View(key, look)
		}, views
	case "GetMany":
		visit := func(at int, value []byte) { w.see(w.batch[at], value) }
		return func(at int) {
			for number := range w.batch {
				w.batch[number] = w.keys.At(at + number)
			}
			w.gets += Many
			several.GetMany(w.batch[:], visit)
		}, readsMany
	case "Set":
		return func(at int) { w.set(w.keys.At(at)) }, true
	case "aside":
		return func(at int) {
			if key := w.keys.At(at); !w.get(key, read) {
				w.set(key)
			}
		}, true
	case "aside, View":
		return func(at int) {
			key = w.keys.At(at)
			w.gets++
			if !viewer.View(key, look) {
				w.set(key)
			}
		}, views
	}
	return nil, false
}

func (w *worker) get(key string, read func(string) ([]byte, bool)) bool {
	w.gets++
	value, ok := read(key)
	if ok {
		w.see(key, value)
	}
	return ok
}

// see counts a hit, and reads the start of the value, as a program would.
func (w *worker) see(key string, value []byte) {
	w.hits++
	if !isMarked(value, key, w.load.Size) {
		w.wrong = fmt.Sprintf("a value of %d bytes of another key for %s", len(value), key)
	}
}

func (w *worker) set(key string) {
	mark(w.value, key)
	w.cache.Set(key, w.value)
}

// Play executes an operation for some time, or until it has used count keys.
func (p *Player) Play(op string, length time.Duration, count int) (Result, error) {
	var all sync.WaitGroup
	var isOver atomic.Bool
	workers := make([]*worker, Goroutines)
	time.AfterFunc(length, func() { isOver.Store(true) })
	started, before := time.Now(), Processor()
	for number := range Goroutines {
		w := &worker{load: p.load, cache: p.cache, keys: p.keys,
			dst: make([]byte, 0, p.load.Size+64), value: make([]byte, p.load.Size)}
		workers[number] = w
		step, has := w.stepOf(op)
		if !has {
			return Result{}, fmt.Errorf("the cache has no %q", op)
		}
		width := 1
		if op == "GetMany" {
			width = Many
		}
		all.Add(1)
		go func() {
			defer all.Done()
			at, wrap := p.at[number], p.keys.Len()-1
			for w.used < count/Goroutines && !isOver.Load() {
				for range 4 * Many / width {
					step(at)
					at = (at + width) & wrap
				}
				w.used += 4 * Many
			}
			p.at[number] = at
		}()
	}
	all.Wait()
	result := Result{Wall: time.Since(started), CPU: Processor() - before}
	for _, w := range workers {
		result.Ops, result.Gets, result.Hits = result.Ops+w.used, result.Gets+w.gets, result.Hits+w.hits
		if w.wrong != "" {
			return result, fmt.Errorf("%s: %s", op, w.wrong)
		}
	}
	if !p.load.IsFull && result.Hits < result.Gets {
		return result, fmt.Errorf("%s: %d of %d gets missed", op, result.Gets-result.Hits, result.Gets)
	}
	var err error
	result.Resident, err = Resident()
	return result, err
}

// Processor returns the processor time of this process. On a busy machine it is a better measure
// than the elapsed time.
func Processor() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
