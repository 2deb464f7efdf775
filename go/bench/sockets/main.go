// Command sockets compares larder/client with gomemcache on one server: keys per second of the
// client's CPU time. The clients alternate, so that a change of the machine's speed affects both.
//
//	LARDERD=../../target/release/larderd go run ./sockets -rounds 5 -time 1s
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"larder.example/larder/bench"
	"larder.example/larder/client"
)

const (
	items      = 10_000
	valueBytes = 100
	goroutines = 8
)

func newKeys() []string {
	keys := make([]string, items)
	for i := range keys {
		keys[i] = fmt.Sprintf("user:%08d:page", i)
	}
	return keys
}

// remote is a client of the server.
type remote struct {
	set      func(key string, value []byte) error
	get      func(key string) error
	getMulti func(keys []string) (found int, err error)
}

func main() {
	log.SetFlags(0)
	rounds := flag.Int("rounds", 5, "measurements per load, of which the median is printed")
	length := flag.Duration("time", time.Second, "duration of a measurement")
	only := flag.String("loads", "", "measure the loads whose names contain this, such as get of")
	server := flag.String("server", os.Getenv("LARDERD"), "path of larderd")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(),
			"Prints a table of keys per second of the client's processor time: larder/client and gomemcache.")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *server == "" {
		log.Fatal("no larderd: set -server or LARDERD, such as ../../target/release/larderd")
	}
	if err := run(*server, *only, *rounds, *length); err != nil {
		log.Fatal(err)
	}
}

func run(server, only string, rounds int, length time.Duration) error {
	folder, err := os.MkdirTemp("", "sockets")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	socket := filepath.Join(folder, "socket")
	process := exec.Command(server, "-s", socket, "-t", "1")
	if os.Getuid() == 0 {
		process.Args = append(process.Args, "-u", "root")
	}
	process.Stderr = os.Stderr
	if err := process.Start(); err != nil {
		return err
	}
	defer process.Wait()
	defer process.Process.Signal(syscall.SIGTERM)
	if err := await(socket); err != nil {
		return err
	}
	fmt.Printf("%s\n\n", bench.Versions("github.com/bradfitz/gomemcache"))
	ours, err := connectOurs(socket)
	if err != nil {
		return err
	}
	return compare(ours, connectTheirs(socket), only, rounds, length)
}

func await(socket string) error {
	for range 500 {
		if connection, err := net.Dial("unix", socket); err == nil {
			return connection.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.New("the server does not accept connections after five seconds")
}

func connectOurs(socket string) (remote, error) {
	c, err := client.NewWithOptions(client.Options{
		Servers: []string{socket}, NoLocalReads: true, MaxIdleConns: goroutines})
	return remote{
		set: func(key string, value []byte) error { return c.Set(&client.Item{Key: key, Value: value}) },
		get: func(key string) error { _, err := c.Get(key); return err },
		getMulti: func(keys []string) (int, error) {
			found, err := c.GetMulti(keys)
			return len(found), err
		},
	}, err
}

func connectTheirs(socket string) remote {
	c := memcache.New(socket)
	c.MaxIdleConns = goroutines
	return remote{
		set: func(key string, value []byte) error { return c.Set(&memcache.Item{Key: key, Value: value}) },
		get: func(key string) error { _, err := c.Get(key); return err },
		getMulti: func(keys []string) (int, error) {
			found, err := c.GetMulti(keys)
			return len(found), err
		},
	}
}

// load is a kind of request, with the number of keys per turn.
type load struct {
	name string
	keys int
	turn func(remote, int) error
}

func loads() (all []load) {
	keys, value := newKeys(), make([]byte, valueBytes)
	all = append(all,
		load{"get", 1, func(r remote, at int) error { return r.get(keys[at%items]) }},
		load{"set", 1, func(r remote, at int) error { return r.set(keys[at%items], value) }})
	for _, many := range []int{16, 100} {
		all = append(all, load{fmt.Sprint("get of ", many), many, func(r remote, at int) error {
			start := at * many % (items - many)
			found, err := r.getMulti(keys[start : start+many])
			if err == nil && found != many {
				return fmt.Errorf("found %d of %d keys", found, many)
			}
			return err
		}})
	}
	return all
}

func compare(ours, theirs remote, only string, rounds int, length time.Duration) error {
	for _, key := range newKeys() {
		if err := ours.set(key, make([]byte, valueBytes)); err != nil {
			return err
		}
	}
	fmt.Printf("keys per second of the client's CPU time, %d goroutines, unix socket; median of %d rounds\n\n", goroutines, rounds)
	fmt.Println("| | larder | gomemcache | ratio |\n|---|--:|--:|--:|")
	for _, load := range loads() {
		if !strings.Contains(load.name, only) {
			continue
		}
		var our, their, ratios []float64
		for range rounds {
			for _, one := range []struct {
				remote remote
				rates  *[]float64
			}{{ours, &our}, {theirs, &their}} {
				rate, err := measure(one.remote, load, length)
				if err != nil {
					return fmt.Errorf("%s: %w", load.name, err)
				}
				*one.rates = append(*one.rates, rate)
			}
			ratios = append(ratios, our[len(our)-1]/their[len(their)-1])
		}
		slices.Sort(our)
		slices.Sort(their)
		slices.Sort(ratios)
		fmt.Printf("| %s | %.0f | %.0f | %.2f (%.2f–%.2f) |\n", load.name, our[rounds/2], their[rounds/2],
			ratios[rounds/2], ratios[0], ratios[rounds-1])
	}
	return nil
}

func measure(r remote, load load, length time.Duration) (float64, error) {
	var turns atomic.Int64
	var stop atomic.Bool
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	before := processorTime()
	for each := range goroutines {
		all.Add(1)
		go func() {
			defer all.Done()
			at := each * items / goroutines
			for ; !stop.Load(); at++ {
				if err := load.turn(r, at); err != nil {
					failed.Store(&err)
					return
				}
				turns.Add(1)
			}
		}()
	}
	time.Sleep(length)
	stop.Store(true)
	all.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	taken := processorTime() - before
	return float64(turns.Load()) * float64(load.keys) / taken.Seconds(), nil
}

// processorTime returns the CPU time of this process, in user and kernel mode.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
