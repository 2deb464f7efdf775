package larder

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The goroutines have an OS thread each, as after many blocking calls: Go's threads do not end.
// Idle threads hold a thread slot of the cache and make no calls.
func BenchmarkGetOnManyThreads(b *testing.B) {
	counts := []struct{ idle, busy int }{{0, 2}, {0, 62}, {0, 200}, {0, 400}, {62, 2}, {200, 2}, {200, 16}, {200, 64}}
	for _, count := range counts {
		idle, threads := count.idle, count.busy
		b.Run(fmt.Sprint(idle, " idle, busy ", threads), func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
			cache := openCache(b, Options{Memory: 64 << 20})
			const keys = 1 << 10
			for at := range keys {
				set(b, cache, fmt.Sprint(at), "value")
			}
			var started, all sync.WaitGroup
			end := make(chan struct{})
			for range idle {
				started.Add(1)
				all.Add(1)
				go func() {
					defer all.Done()
					runtime.LockOSThread()
					cache.Contains("0")
					started.Done()
					<-end
				}()
			}
			started.Wait()
			var gets atomic.Int64
			var isOver atomic.Bool
			begin := make(chan struct{})
			for thread := range threads {
				started.Add(1)
				all.Add(1)
				go func() {
					defer all.Done()
					// Never unlocked: the thread ends with the goroutine.
					runtime.LockOSThread()
					var value [16]byte
					cache.Contains("0")
					started.Done()
					<-begin
					for at := thread; !isOver.Load(); at++ {
						for range 64 {
							if _, _, err := cache.GetInto(value[:0], "77"); err != nil {
								b.Error(err)
								return
							}
						}
						gets.Add(64)
					}
				}()
			}
			started.Wait()
			b.ResetTimer()
			start := time.Now()
			close(begin)
			time.Sleep(time.Second)
			isOver.Store(true)
			close(end)
			all.Wait()
			b.ReportMetric(float64(gets.Load())/time.Since(start).Seconds()/1e6, "Mgets/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}
