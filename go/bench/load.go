package bench

import (
	"encoding/binary"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"
)

const (
	// KeyBytes is the length of every key.
	KeyBytes = 16
	// Draws is the number of keys that are drawn at random before a benchmark, which then uses them in
	// this order. It is a power of two, so that an index wraps by a mask.
	Draws = 1 << 23
	// Many is the number of keys of a GetMany. It divides Draws.
	Many = 16
)

// Load describes the items of a cache, and in which order a benchmark uses them.
type Load struct {
	Name string
	// Items is the number of keys, Size the length of each value.
	Items, Size int
	// Limit is the memory of the cache in bytes.
	Limit int64
	// IsZipf is true if keys are drawn by Zipf's law with exponent 1.01, else all are equally likely.
	IsZipf bool
	// IsFull is true if the cache cannot hold all items. A miss is then followed by a Set; in the
	// other loads it is an error.
	IsFull bool
}

// Loads are the loads of docs/benchmarks.md.
var Loads = []Load{
	{"100 B, uniform", 1_000_000, 100, 512 << 20, false, false},
	{"100 B, zipf", 1_000_000, 100, 512 << 20, true, false},
	{"10 KiB, uniform", 20_000, 10 << 10, 512 << 20, false, false},
	{"full, 1 KB, uniform", 1_000_000, 1000, 256 << 20, false, true},
	{"full, 1 KB, zipf", 1_000_000, 1000, 256 << 20, true, true},
}

// LoadOf returns the load with a name.
func LoadOf(name string) (Load, error) {
	for _, load := range Loads {
		if load.Name == name {
			return load, nil
		}
	}
	return Load{}, fmt.Errorf("unknown load %q", name)
}

// Ops returns the operations of a load.
func (l Load) Ops() []string {
	if l.IsFull {
		return []string{"aside", "aside, View"}
	}
	return []string{"Get", "GetInto", "View", "GetMany", "Set"}
}

// appendKey appends the key with a number.
func appendKey(text []byte, number int) []byte { return fmt.Appendf(text, "key:%012d", number) }

// Keys is a sequence of keys without separators. They are outside of Go's heap, so that they add
// nothing to the cost of a collection. Because they are adjacent, the processor has them in its
// caches like keys that a caller has just built. The benchmark thus measures the cache, not the
// caller's cache misses on the key.
type Keys []byte

// At returns a key without a copy.
func (k Keys) At(at int) string { return unsafe.String(&k[at*KeyBytes], KeyBytes) }

// Len returns the number of keys.
func (k Keys) Len() int { return len(k) / KeyBytes }

// drawn returns the path of the file with the drawn keys of a load. All runs and all caches use the
// same file.
func (l Load) drawn(folder string) string {
	return filepath.Join(folder, fmt.Sprintf("keys-%d-%v", l.Items, l.IsZipf))
}

// Draw writes the drawn keys of a load to a file in a folder, unless it exists.
func (l Load) Draw(folder string, count int) error {
	if _, err := os.Stat(l.drawn(folder)); err == nil {
		return nil
	}
	random := rand.New(rand.NewSource(2))
	law := rand.NewZipf(random, 1.01, 1, uint64(l.Items-1))
	// Shuffle the numbers, so that popular keys do not have adjacent numbers.
	mix := random.Perm(l.Items)
	var all []byte
	for number := range l.Items {
		all = appendKey(all, number)
	}
	text := make([]byte, 0, count*KeyBytes)
	for range count {
		number := mix[random.Intn(l.Items)]
		if l.IsZipf {
			number = mix[law.Uint64()]
		}
		text = append(text, all[number*KeyBytes:][:KeyBytes]...)
	}
	return os.WriteFile(l.drawn(folder), text, 0o600)
}

// Drawn maps the file that Draw has written and reads it completely. Its memory thus counts as
// memory that the process uses before it opens the cache, and not as memory of the cache.
func (l Load) Drawn(folder string) (Keys, error) {
	file, err := os.Open(l.drawn(folder))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	return syscall.Mmap(int(file.Fd()), 0, int(info.Size()), syscall.PROT_READ,
		syscall.MAP_SHARED|syscall.MAP_POPULATE)
}

// mark writes the end of the key, which contains the number, to the start of its value.
func mark(value []byte, key string) { copy(value[:8], key[KeyBytes-8:]) }

// isMarked reports whether a value has the right length and the right start.
func isMarked(value []byte, key string, size int) bool {
	return len(value) == size &&
		binary.LittleEndian.Uint64(value) == *(*uint64)(unsafe.Pointer(unsafe.StringData(key[KeyBytes-8:])))
}

// Fill stores all items of a load. If the cache has room for all items, they must be in the cache
// afterwards.
func (l Load) Fill(cache Cache) error {
	value, key := make([]byte, l.Size), []byte(nil)
	for number := range l.Items {
		key = appendKey(key[:0], number)
		mark(value, string(key))
		cache.Set(unsafe.String(&key[0], KeyBytes), value)
		// An asynchronous cache that cannot keep up drops items.
		if waiter, ok := cache.(Waiter); ok && number%1000 == 999 {
			waiter.Wait()
		}
	}
	if waiter, ok := cache.(Waiter); ok {
		waiter.Wait()
	}
	for number := 0; number < l.Items && !l.IsFull; number++ {
		key = appendKey(key[:0], number)
		if value, ok := cache.Get(string(key)); !ok || !isMarked(value, string(key), l.Size) {
			return fmt.Errorf("%s is not in the cache: %d bytes, %v", key, len(value), ok)
		}
	}
	return nil
}

// Resident returns the memory of this process in bytes.
func Resident() (int64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	var total, pages int64
	_, err = fmt.Sscan(string(text), &total, &pages)
	return pages * int64(os.Getpagesize()), err
}

// HugePages applies the setting "never" to this process. For the other settings it does nothing:
// the kernel applies them.
func HugePages(setting string) error {
	const disable = 41 // PR_SET_THP_DISABLE
	if setting != "never" {
		return nil
	}
	if _, _, number := syscall.RawSyscall6(syscall.SYS_PRCTL, disable, 1, 0, 0, 0, 0); number != 0 {
		return fmt.Errorf("prctl(PR_SET_THP_DISABLE): %w", number)
	}
	return nil
}
