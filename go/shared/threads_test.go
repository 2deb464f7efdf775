//go:build linux && cgo

package shared

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

// Each goroutine has an OS thread, as after many blocking calls. There are far more threads than a
// small cache has thread slots.
func TestAThousandThreadsEachGetTheirTurn(t *testing.T) {
	const threads, operations, timeMax = 1000, 100, time.Minute
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
	cache := openCache(t, Options{Memory: 1 << 20})
	var begun, ended sync.WaitGroup
	begun.Add(threads)
	ended.Add(threads)
	begin := make(chan struct{})
	start := time.Now()
	for thread := range threads {
		go func() {
			defer ended.Done()
			// The goroutine never unlocks the thread, so the thread ends with the goroutine.
			runtime.LockOSThread()
			begun.Done()
			<-begin
			for at := range operations {
				key, value := fmt.Sprint(thread%50, " ", at), []byte("value")
				if err := cache.Set(key, value, 0); err != nil {
					t.Errorf("Set(%q) = %v", key, err)
					return
				}
				if got, ok := cache.Get(key); ok && string(got) != "value" {
					t.Errorf("Get(%q) = %q, want %q", key, got, value)
					return
				}
			}
		}()
	}
	begun.Wait()
	close(begin)
	ended.Wait()
	if took := time.Since(start); took > timeMax {
		t.Errorf("%d threads took %v, want at most %v", threads, took, timeMax)
	}
}
