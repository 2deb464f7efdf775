package reader_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"larder.example/larder/internal/check"
	"larder.example/larder/reader"
)

func TestOpenNamesFieldThatDiffers(t *testing.T) {
	_, text := sceneNamed(t, "kinds")
	offsets := map[string]int{
		"format": 8, "bytes of a segment": 12, "size in bytes": 16, "number of segments": 24,
		"number of thread slots": 28, "bytes of a thread slot": 32, "number of stripes": 36,
		"number of TTL classes": 56, "number of peers": 74, "bytes of a peer": 76,
		"capacity in bytes": 127,
	}
	for field, at := range offsets {
		t.Run(field, func(t *testing.T) {
			path := copyRegion(t, text, func(region []byte) { region[at]++ })
			_, err := reader.Open(path)
			var wrong *reader.FieldError
			if !errors.As(err, &wrong) {
				t.Fatalf("Open: error %v, want a FieldError", err)
			}
			check.Equal(t, "Field", wrong.Field, field)
			check.Equal(t, "Found is Expected", wrong.Found == wrong.Expected, false)
			for _, part := range []string{field, path} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("Open: error %q, want the text %q", err, part)
				}
			}
		})
	}
	for _, bytes := range []uint64{0, 1, 1 << 63, 9 << 20} {
		for field, at := range map[string]int{"memory": 64, "capacity": 120} {
			path := copyRegion(t, text, func(region []byte) { binary.LittleEndian.PutUint64(region[at:], bytes) })
			var wrong *reader.FieldError
			if _, err := reader.Open(path); !errors.As(err, &wrong) {
				t.Errorf("Open with a %s of %d bytes: error %v, want a FieldError", field, bytes, err)
			}
		}
	}
}

func TestOpenRejectsOtherFiles(t *testing.T) {
	_, text := sceneNamed(t, "kinds")
	_, err := reader.Open(copyRegion(t, text, func(region []byte) { region[0] = 'l' }))
	check.ErrorIs(t, "Open with another magic", err, reader.ErrNoRegion)
	_, err = reader.Open(copyRegion(t, text, func(region []byte) { region[104]++ }))
	check.ErrorIs(t, "Open with another boot id", err, reader.ErrOtherBoot)
	for _, length := range []int{0, 1, 4095, 4096, len(text) - 1} {
		if _, err := reader.Open(copyRegion(t, text[:length], func([]byte) {})); err == nil {
			t.Errorf("Open of the first %d of %d bytes: no error, want one", length, len(text))
		}
	}
	if _, err := reader.Open(t.TempDir()); err == nil {
		t.Error("Open of a folder: no error, want one")
	}
	_, err = reader.Open(filepath.Join(t.TempDir(), "none"))
	check.ErrorIs(t, "Open of an absent file", err, os.ErrNotExist)
}

// lookUpKeys reads keys of a scene in a damaged copy of its region. The reads must end without a
// fault; their results do not matter.
func lookUpKeys(t *testing.T, scene scene, path string, keysMax int) {
	t.Helper()
	region, err := reader.Open(path)
	if err != nil {
		return
	}
	defer region.Close()
	var keys [][]byte
	for _, at := range rand.Perm(len(scene.cases))[:min(keysMax, len(scene.cases))] {
		keys = append(keys, scene.cases[at].key())
	}
	started := time.Now()
	dst := make([]byte, 0, 1<<20)
	for _, key := range keys {
		region.Get(dst, key)
	}
	region.GetMany(dst, keys, func(int, []byte, reader.Info) {})
	if took := time.Since(started); took > 30*time.Second {
		// A bounded search takes milliseconds; an unbounded search of a ring would never end.
		t.Errorf("%d keys took %v, want at most 30 s", len(keys), took)
	}
}

func TestReadsOfRandomDamageEnd(t *testing.T) {
	for _, name := range []string{"kinds", "evicted", "grown"} {
		scene, text := sceneNamed(t, name)
		// Not the superblock: Open would reject the region.
		for _, spread := range []int{1 << 4, 1 << 8, 1 << 12, 1 << 16} {
			path := copyRegion(t, text, func(region []byte) {
				for at := 256 + rand.IntN(spread); at < len(region); at += 1 + rand.IntN(2*spread) {
					region[at] ^= 1 << rand.IntN(8)
				}
			})
			lookUpKeys(t, scene, path, 50)
		}
	}
}

// The damaged words are offsets and counts of groups, directories, sequences, slots and tables.
func TestReadsOfWrongOffsetsEnd(t *testing.T) {
	scene, text := sceneNamed(t, "kinds")
	for _, wrong := range []uint64{0, 1, 0xFFFF_FFFF, 1 << 63, ^uint64(0), ^uint64(0) - 8} {
		for _, at := range []int{256, 384, 392, 400, 776} {
			path := copyRegion(t, text, func(region []byte) { binary.LittleEndian.PutUint64(region[at:], wrong) })
			lookUpKeys(t, scene, path, 20)
		}
		for _, every := range []int{1, 3, 100} {
			path := copyRegion(t, text, func(region []byte) {
				for at := 1920; at+8 <= len(region); at += 8 * every {
					binary.LittleEndian.PutUint64(region[at:], wrong)
				}
			})
			lookUpKeys(t, scene, path, 20)
		}
	}
}

// Every control word of the index, also of the overflow groups, refers to the first overflow group.
func TestReadsOfRingsEnd(t *testing.T) {
	scene, text := sceneNamed(t, "grown")
	path := copyRegion(t, text, func(region []byte) {
		for at := len(region) % 128; at+128 <= len(region); at += 128 {
			word := binary.LittleEndian.Uint64(region[at:])
			binary.LittleEndian.PutUint64(region[at:], word&^0x3FFF_FFFF|1)
		}
	})
	lookUpKeys(t, scene, path, 50)
}

func FuzzDamagedRegion(f *testing.F) {
	scene, text := sceneNamed(f, "kinds")
	f.Add(uint32(256), uint64(1), uint32(400), uint64(3))
	path := filepath.Join(f.TempDir(), "region")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, firstAt uint32, first uint64, secondAt uint32, second uint64) {
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		check.NoError(t, err)
		defer file.Close()
		for _, change := range []struct {
			at   uint32
			word uint64
		}{{firstAt, first}, {secondAt, second}} {
			at := int64(change.at) % int64(len(text)-8)
			was := text[at : at+8]
			_, _ = file.WriteAt(binary.LittleEndian.AppendUint64(nil, change.word), at)
			defer func() { _, _ = file.WriteAt(was, at) }()
		}
		lookUpKeys(t, scene, path, 30)
	})
}
