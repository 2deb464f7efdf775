//go:build !larder_heap

package memory

import "syscall"

// adviseHugePages asks for huge pages, with which reads of random items take fewer TLB misses. A
// kernel without them refuses, and the memory stays as it is.
func adviseHugePages(memory []byte) { _ = syscall.Madvise(memory, syscall.MADV_HUGEPAGE) }

// Populate takes memory of the system for a part of an arena and leaves its contents as they are;
// others may use it meanwhile. Kernels before 5.14 refuse: then the first access takes the memory.
func Populate(part []byte) {
	const populateWrite = 23
	_ = syscall.Madvise(part, populateWrite)
}
