//go:build !larder_heap

package memory

import (
	"bytes"
	"os"
	"syscall"
)

// CollapseIsKnown is true where Collapse may do something.
const CollapseIsKnown = true

// The arguments of madvise that package syscall lacks: since Linux 5.14, and since 6.1.
const (
	populateWrite = 23
	collapse      = 25
)

// Populate takes memory of the system for a part of an arena and leaves its contents as they are;
// others may use it meanwhile. Kernels before 5.14 refuse: then the first access takes the memory.
func Populate(part []byte) { _ = syscall.Madvise(part, populateWrite) }

// Discard returns the memory of a part to the system. The next access finds zeros there. The
// part consists of whole pages, or keeps its memory.
func Discard(part []byte) { _ = syscall.Madvise(part, syscall.MADV_DONTNEED) }

// Collapse puts one huge page in place of the small pages of a block, with which reads of random
// items take fewer TLB misses. The contents stay as they are, and others may use them meanwhile: an
// access waits while the kernel copies. Collapse returns false if the kernel has no huge page or no
// time now, so that it is worth another try. A kernel that does not know the call, or refuses it,
// gets the advice, with which it collapses the block when it likes.
func Collapse(block []byte) bool {
	takeAndFree()
	switch err := syscall.Madvise(block, collapse); err {
	case nil:
		return true
	case syscall.ENOMEM, syscall.EAGAIN, syscall.EBUSY:
		return false
	}
	// A kernel without huge pages refuses the advice, too.
	_ = syscall.Madvise(block, syscall.MADV_HUGEPAGE)
	return true
}

// takeAndFree takes a huge page of the system and gives it back. The kernel takes the page that was
// freed last for the collapse. If the system had to make that page first, or its host to provide
// the memory, this has taken the time, and no access to the block has waited for it.
func takeAndFree() {
	mapped, err := mapAligned(HugePageBytes)
	if err != nil {
		return
	}
	_ = syscall.Madvise(mapped.aligned, syscall.MADV_HUGEPAGE)
	// One small page is enough, and is all that there is if the kernel has no huge page.
	Populate(mapped.aligned[:1])
	_ = syscall.Munmap(mapped.all)
}

// MayCollapse returns false if the system is set to use no huge pages, which Collapse overrides.
func MayCollapse() bool {
	setting, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	return err == nil && allows(setting)
}

// allows returns false for a setting such as "always madvise [never]".
func allows(setting []byte) bool { return !bytes.Contains(setting, []byte("[never]")) }
