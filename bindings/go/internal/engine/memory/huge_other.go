//go:build !linux || larder_heap

package memory

// adviseHugePages does nothing where the package syscall has no such advice.
func adviseHugePages([]byte) {}

// Populate does nothing: the first access to each page takes its memory.
func Populate([]byte) {}
