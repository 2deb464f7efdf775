package bigcache

import "larder.example/larder"

const (
	mebibyte = 1 << 20
	// The maximum memory of a larder.Cache.
	memoryCeiling = 1 << 40
)

// memoryOptions returns the memory limit of the cache: HardMaxCacheSize, or else half of the memory
// of the machine. The system provides a page when the cache first uses it.
func memoryOptions(config *Config) larder.Options {
	memory := max(machineBytes()/2, 2*mebibyte)
	if config.HardMaxCacheSize > 0 {
		memory = int64(min(config.HardMaxCacheSize, memoryCeiling/mebibyte)) * mebibyte
	}
	return larder.Options{Memory: min(memory, memoryCeiling)}
}
