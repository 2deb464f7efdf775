//go:build !larder_heap

package memory

import "syscall"

// adviseHugePages asks for huge pages, with which reads of random items take fewer TLB misses. A
// kernel without them refuses, and the memory stays as it is.
func adviseHugePages(memory []byte) { _ = syscall.Madvise(memory, syscall.MADV_HUGEPAGE) }
