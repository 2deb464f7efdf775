//go:build !linux || larder_heap

package memory

// CollapseIsKnown is true where Collapse may do something.
const CollapseIsKnown = false

// Populate does nothing: the first access to each page allocates it.
func Populate([]byte) {}

// Discard does nothing: the part keeps its memory until the arena is freed.
func Discard([]byte) {}

// Collapse does nothing where package syscall has no such call.
func Collapse([]byte) bool { return true }

// MayCollapse returns true if the cache should use huge pages.
func MayCollapse() bool { return false }
