//go:build unix && !linux && !larder_heap

package memory

// adviseHugePages does nothing where the package syscall has no such advice.
func adviseHugePages([]byte) {}
