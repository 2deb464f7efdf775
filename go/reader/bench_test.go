package reader_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"larder.example/larder/reader"
)

const benchItems = 1_000_000

// benchKeys returns keys of 1,000,000 items in random order, distributed by Zipf's law with
// exponent 1.01.
func benchKeys() [][]byte {
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.01, 1, benchItems-1)
	keys := make([][]byte, 1<<20)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key:%08d", zipf.Uint64()*7919%benchItems)
	}
	return keys
}

// benchServer starts a larderd with 1,000,000 items of 100 bytes.
func benchServer(b *testing.B) *server {
	b.Helper()
	s := startLarderd(b, "-m", "512")
	writer := dial(b, s)
	value := make([]byte, 100)
	var lines []byte
	for i := range benchItems {
		lines = fmt.Appendf(lines, "set key:%08d 0 0 100 noreply\r\n%s\r\n", i, value)
		if len(lines) > 1<<20 {
			if _, err := writer.Write(lines); err != nil {
				b.Fatal(err)
			}
			lines = lines[:0]
		}
	}
	if _, err := writer.Write(lines); err != nil {
		b.Fatal(err)
	}
	writer.request(b, "version")
	return s
}

// BenchmarkGet measures reads of 100 bytes from a million items, in the memory and through the
// socket.
func BenchmarkGet(b *testing.B) {
	s, keys := benchServer(b), benchKeys()
	local := attach(b, s)
	b.Run("memory", func(b *testing.B) {
		dst := make([]byte, 0, 128)
		found := 0
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, _, ok := local.Get(dst, keys[i%len(keys)]); ok {
				found++
			}
		}
		b.ReportMetric(100*float64(found)/float64(b.N), "%hit")
	})
	b.Run("memory/few keys", func(b *testing.B) {
		dst := make([]byte, 0, 128)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			local.Get(dst, keys[i%100])
		}
	})
	b.Run("memory/16 at once", func(b *testing.B) {
		dst := make([]byte, 0, 128*16)
		found := 0
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			at := i * 16 % len(keys)
			local.GetMany(dst, keys[at:at+16], func(int, []byte, reader.Info) { found++ })
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/16, "ns/key")
		b.ReportMetric(100*float64(found)/float64(b.N)/16, "%hit")
	})
	b.Run("memory/parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			dst := make([]byte, 0, 128)
			for i := rand.IntN(len(keys)); pb.Next(); i++ {
				local.Get(dst, keys[i%len(keys)])
			}
		})
	})
	b.Run("socket", func(b *testing.B) {
		conn := dial(b, s)
		into := make([]byte, 0, 256)
		for i := 0; b.Loop(); i++ {
			if value, err := conn.get(into, keys[i%len(keys)]); err != nil || len(value) != 100 {
				b.Fatalf("get = %d bytes, %v, want 100", len(value), err)
			}
		}
	})
}
