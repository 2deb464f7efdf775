//go:build linux && (amd64 || arm64 || loong64 || ppc64le || riscv64)

package client

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"larder.example/larder/internal/check"
	"larder.example/larder/internal/testserver"
)

// The items of the test have 18 MB, the server has 4 MiB of memory.
const (
	tierKeys    = 4000
	tierChanges = 2
)

// tierChange is the state of a key: the number of its last change that has begun, and the number of
// its last change that has ended. Change 2 of each fifth key is a delete.
type tierChange struct{ begun, ended atomic.Int64 }

func isTierDelete(key int, change int64) bool { return change == 2 && key%5 == 0 }

func tierValue(key int, change int64) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%07d %07d ", key, change), 150+key%260)
}

func changeKey(c *Client, key int, state *tierChange) error {
	change := state.begun.Add(1)
	name := strconv.Itoa(key)
	var err error
	if isTierDelete(key, change) {
		// In cache mode the disk may have dropped it.
		if err = c.Delete(name); errors.Is(err, ErrCacheMiss) {
			err = nil
		}
	} else {
		err = c.Set(&Item{Key: name, Value: tierValue(key, change)})
	}
	state.ended.Store(change)
	return err
}

// checkKey checks the result of a reader that began after the change low had ended. It reports
// whether an item was missing.
func checkKey(key int, low int64, found *Item, state *tierChange) (missing bool, err error) {
	high := state.begun.Load()
	for change := low; change <= high; change++ {
		if found == nil && isTierDelete(key, change) {
			return false, nil
		}
		if found != nil && !isTierDelete(key, change) && bytes.Equal(found.Value, tierValue(key, change)) {
			return false, nil
		}
	}
	if found != nil {
		err = fmt.Errorf("key %d: %.20q of change %d to %d", key, found.Value, low, high)
	}
	return found == nil, err
}

// readBesideWriters reads random keys until the writers are done, and returns the keys that were
// missing.
func readBesideWriters(c *Client, states []tierChange, isOver *atomic.Bool) (map[int]bool, error) {
	missing := map[int]bool{}
	for !isOver.Load() {
		lows, keys := map[int]int64{}, []string{}
		for range 10 {
			key := rand.IntN(len(states))
			lows[key] = states[key].ended.Load()
			keys = append(keys, strconv.Itoa(key))
		}
		found, err := c.GetMulti(keys)
		if err != nil {
			return nil, err
		}
		for key, low := range lows {
			isMissing, err := checkKey(key, low, found[strconv.Itoa(key)], &states[key])
			if err != nil {
				return nil, err
			}
			if isMissing {
				missing[key] = true
			}
		}
	}
	return missing, nil
}

func TestLocalReadsBesideADisk(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("local reads require Linux")
	}
	for _, mode := range []string{"store", "cache"} {
		for _, io := range []string{"uring", "epoll"} {
			t.Run(mode+" "+io, func(t *testing.T) { testLocalReadsBesideADisk(t, mode, io) })
		}
	}
}

func testLocalReadsBesideADisk(t *testing.T, mode, io string) {
	socket := testserver.Start(t, localLarderd[0], append(localLarderd[1:], "-m", "4", "--io", io,
		"--tier-path", filepath.Join(t.TempDir(), "tier"), "--tier-size", "1g", "--tier-mode", mode)...)
	c := newClient(t, Options{Servers: []string{socket}})
	states := make([]tierChange, tierKeys)
	for key := range states {
		check.NoError(t, changeKey(c, key, &states[key]))
	}
	waitForLocalRead(t, c, strconv.Itoa(tierKeys-1))

	var isOver atomic.Bool
	var writers, readers sync.WaitGroup
	missing := make([]map[int]bool, 2)
	for reader := range missing {
		readers.Add(1)
		go func() {
			defer readers.Done()
			var err error
			missing[reader], err = readBesideWriters(c, states, &isOver)
			if err != nil {
				t.Error(err)
			}
		}()
	}
	for writer := range 2 {
		writers.Add(1)
		go func() {
			defer writers.Done()
			for key := writer; key < len(states); key += 2 {
				if err := changeKey(c, key, &states[key]); err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	writers.Wait()
	isOver.Store(true)
	readers.Wait()

	local := c.LocalReads()
	quiet := map[int]bool{}
	for key := range states {
		found, err := c.Get(strconv.Itoa(key))
		if err != nil {
			wantOutcome(t, err, ErrCacheMiss)
		}
		isMissing, err := checkKey(key, tierChanges, found, &states[key])
		check.NoError(t, err)
		if isMissing {
			quiet[key] = true
		}
	}
	local = c.LocalReads() - local
	if local == 0 || local > tierKeys*2/3 {
		t.Errorf("%d of %d keys were read in the memory, which has a quarter of them", local, tierKeys)
	}
	// In cache mode the disk may drop items when it cannot keep up.
	if mode == "cache" {
		return
	}
	for _, keys := range append(missing, quiet) {
		if len(keys) > 0 {
			t.Errorf("%d keys were missing", len(keys))
		}
	}
}
