package bigcache

import (
	"syscall"

	"larder"
)

const mebibyte = 1 << 20

// sizes says how the cache is opened, and how far its memory may grow.
func sizes(config *Config) (larder.Options, int64) {
	if config.HardMaxCacheSize > 0 {
		memory := int64(config.HardMaxCacheSize) * mebibyte
		return larder.Options{Memory: memory, ItemMax: memory / 4}, memory
	}
	// Nothing is evicted then, as in BigCache; the machine goes on all the same.
	memoryMax := max(machineBytes()/2, 64*mebibyte)
	expected := float64(config.MaxEntriesInWindow) * float64(config.MaxEntrySize)
	memory := int64(min(max(expected, 16*mebibyte), float64(memoryMax)/2))
	return larder.Options{
		Memory: memory, MemoryMax: memoryMax, ItemMax: memory / 4, NoEviction: true,
	}, memoryMax
}

// machineBytes is how much memory the machine has.
func machineBytes() int64 {
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) != nil {
		return 1 << 30
	}
	return int64(info.Totalram) * int64(info.Unit)
}
