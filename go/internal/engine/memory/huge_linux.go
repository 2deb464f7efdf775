//go:build !larder_heap

package memory

import (
	"bytes"
	"os"
	"syscall"
)

// CollapseIsKnown is true where Collapse may do something.
const CollapseIsKnown = true

// Arguments of madvise that package syscall does not define. Linux has populateWrite since 5.14 and
// collapse since 6.1.
const (
	populateWrite = 23
	collapse      = 25
)

// Populate allocates the pages of a part of an arena and does not change its contents; others may
// use the part during the call. Kernels before 5.14 refuse; then the first access allocates a page.
func Populate(part []byte) { _ = syscall.Madvise(part, populateWrite) }

// Discard returns the memory of a part to the system. The next access finds zeros. The part must
// consist of complete pages, otherwise it keeps its memory.
func Discard(part []byte) { _ = syscall.Madvise(part, syscall.MADV_DONTNEED) }

// Collapse replaces the small pages of a block with one huge page. Reads of random items then cause
// fewer TLB misses. The contents do not change, and others may use them during the call: an access
// waits while the kernel copies. Collapse returns false if the kernel currently has no huge page or
// no time, so that another attempt makes sense. If the kernel does not support the call, or refuses
// it, Collapse advises it to use huge pages; the kernel then decides when to collapse the block.
func Collapse(block []byte) bool {
	takeAndFree()
	switch err := syscall.Madvise(block, collapse); err {
	case nil:
		return true
	case syscall.ENOMEM, syscall.EAGAIN, syscall.EBUSY:
		return false
	}
	// A kernel without huge pages also refuses the advice.
	_ = syscall.Madvise(block, syscall.MADV_HUGEPAGE)
	return true
}

// takeAndFree allocates a huge page and frees it again. For the collapse the kernel then uses this
// page, because it uses the page that was freed last. The allocation may be slow: the kernel may
// have to move memory to free a huge page, or the host of a virtual machine may have to provide the
// memory. takeAndFree waits for this before the collapse, so that no access to the block has to
// wait for it.
func takeAndFree() {
	mapped, err := mapAligned(HugePageBytes)
	if err != nil {
		return
	}
	_ = syscall.Madvise(mapped.aligned, syscall.MADV_HUGEPAGE)
	// One small page is enough: it populates the huge page, or only itself if the kernel has no huge
	// page.
	Populate(mapped.aligned[:1])
	_ = syscall.Munmap(mapped.all)
}

// MayCollapse returns false if the system is configured not to use huge pages. Collapse would
// override that setting.
func MayCollapse() bool {
	setting, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	return err == nil && allows(setting)
}

// allows returns false for a setting such as "always madvise [never]".
func allows(setting []byte) bool { return !bytes.Contains(setting, []byte("[never]")) }
