package larder

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"larder.example/larder/internal/check"
)

func TestSavedItemsKeepFlagsAndDeadlines(t *testing.T) {
	clock := newClock()
	cache := openCache(t, Options{Clock: clock.Now, CAS: true})
	for n := range 1000 {
		must[uint64](t)(cache.SetItem(fmt.Sprint(n), bytes.Repeat([]byte{byte(n)}, n), Item{Flags: uint32(n)}))
	}
	check.NoError(t, cache.Set("minute", []byte("v"), time.Minute))
	check.NoError(t, cache.Set("second", []byte("v"), time.Second))
	path := filepath.Join(t.TempDir(), "cache")
	check.NoError(t, cache.SaveFile(path))

	clock.advance(10 * time.Second)
	loaded := openCache(t, Options{Clock: clock.Now, Memory: 4 << 20})
	check.Equal(t, "LoadFile", must[int](t)(loaded.LoadFile(path)), 1001)
	for n := range 1000 {
		value, item, ok := loaded.GetItem(fmt.Sprint(n))
		if !ok || !bytes.Equal(value, bytes.Repeat([]byte{byte(n)}, n)) || item != (Item{Flags: uint32(n)}) {
			t.Fatalf("GetItem(%d) = %.20q, %+v, %v, want the saved item", n, value, item, ok)
		}
	}
	item, _, _ := loaded.Peek("minute")
	check.Equal(t, "TTL after ten seconds", item.TTL, 50*time.Second)
	check.Equal(t, "Contains the expired item", loaded.Contains("second"), false)
}

func TestSaveFileReplacesTheFileAtOnce(t *testing.T) {
	cache := openCache(t, Options{})
	folder := t.TempDir()
	path := filepath.Join(folder, "cache")
	set(t, cache, "k", "first")
	check.NoError(t, cache.SaveFile(path))
	set(t, cache, "k", "second")
	check.NoError(t, cache.SaveFile(path))
	loaded := openCache(t, Options{})
	must[int](t)(loaded.LoadFile(path))
	wantValue(t, loaded, "k", "second")
	_ = cache.Close()
	check.ErrorIs(t, "SaveFile of a closed cache", cache.SaveFile(path), ErrClosed)
	must[int](t)(openCache(t, Options{}).LoadFile(path))
	entries := must[[]os.DirEntry](t)(os.ReadDir(folder))
	check.Equal(t, "files after a failed save", len(entries), 1)
	err := loaded.SaveFile(filepath.Join(folder, "no", "such", "folder"))
	if err == nil || !strings.Contains(err.Error(), "such") {
		t.Errorf("SaveFile: error %v, want the path", err)
	}
}

func TestLoadOfDamagedData(t *testing.T) {
	cache := openCache(t, Options{})
	for n := range 1000 {
		set(t, cache, fmt.Sprint(n), strings.Repeat("v", 1000))
	}
	var saved bytes.Buffer
	check.NoError(t, cache.Save(&saved))
	damaged := bytes.Clone(saved.Bytes())
	damaged[len(damaged)/2] ^= 1
	for name, data := range map[string][]byte{
		"changed": damaged, "cut off": saved.Bytes()[:saved.Len()-1], "nothing": nil, "text": []byte("not a cache"),
	} {
		loaded := openCache(t, Options{})
		items, err := loaded.Load(bytes.NewReader(data))
		check.ErrorIs(t, name, err, ErrDamaged)
		check.Equal(t, name+": mentions of the damage", strings.Count(err.Error(), "damaged"), 1)
		check.Equal(t, name+": items", items, loaded.Len())
		for key, value := range loaded.All("") {
			check.Equal(t, name+": value of "+key, string(value), strings.Repeat("v", 1000))
		}
	}
	_, err := cache.LoadFile(filepath.Join(t.TempDir(), "none"))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("LoadFile without a file: error %v, want %v", err, fs.ErrNotExist)
	}
}

func TestLoadCountsAndNamesWhatDoesNotFit(t *testing.T) {
	cache := openCache(t, Options{Memory: 64 << 20})
	for n := range 10 {
		set(t, cache, fmt.Sprint("small ", n), "v")
	}
	for n := range 3 {
		set(t, cache, fmt.Sprint("large ", n), strings.Repeat("v", 500_000))
	}
	path := filepath.Join(t.TempDir(), "cache")
	check.NoError(t, cache.SaveFile(path))
	loaded := openCache(t, Options{Memory: 64 << 20, ItemMax: 1000})
	items, err := loaded.LoadFile(path)
	check.Equal(t, "items", items, 10)
	check.ErrorIs(t, "LoadFile", err, ErrTooLarge)
	var omitted *OmittedError
	if !errors.As(err, &omitted) {
		t.Fatalf("LoadFile: error %v, want an OmittedError", err)
	}
	check.Equal(t, "items that are omitted", omitted.Items, 3)
	check.Equal(t, "bytes of the first", omitted.Bytes, 500_007)
	check.Equal(t, "ItemMax", omitted.ItemMax, 1000)
	for _, part := range []string{path, "3 items", omitted.Key, "large ", "500007", "1000"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("LoadFile: error %q, want the text %q", err, part)
		}
	}
}

func TestLoadFileRejectsWhatFollowsTheEnd(t *testing.T) {
	cache := openCache(t, Options{})
	set(t, cache, "k", "v")
	path := filepath.Join(t.TempDir(), "cache")
	check.NoError(t, cache.SaveFile(path))
	file := must[*os.File](t)(os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0))
	must[int](t)(file.Write([]byte{0}))
	check.NoError(t, file.Close())

	loaded := openCache(t, Options{})
	items, err := loaded.LoadFile(path)
	check.ErrorIs(t, "LoadFile", err, ErrDamaged)
	check.Equal(t, "LoadFile", items, 1)
	wantValue(t, loaded, "k", "v")
	if err == nil || !strings.HasSuffix(err.Error(), "bytes follow the end of the saved cache") {
		t.Errorf("LoadFile: error %q, want the reason", err)
	}
}

func TestLoadReadsUpToTheEndOfTheSavedCache(t *testing.T) {
	var stream bytes.Buffer
	for n := range 3 {
		cache := openCache(t, Options{})
		for item := range n * 1000 {
			set(t, cache, fmt.Sprint(n, " ", item), strings.Repeat("v", 100))
		}
		check.NoError(t, cache.Save(&stream))
	}
	stream.WriteString("rest")
	for n := range 3 {
		check.Equal(t, "Load", must[int](t)(openCache(t, Options{}).Load(&stream)), n*1000)
	}
	check.Equal(t, "rest of the stream", stream.String(), "rest")
}
