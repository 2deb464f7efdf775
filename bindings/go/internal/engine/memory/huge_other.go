//go:build !linux || larder_heap

package memory

// Populate does nothing: the first access to each page takes its memory.
func Populate([]byte) {}
