//go:build linux && (amd64 || arm64 || loong64 || ppc64le || riscv64)

package reader

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"unsafe"
)

const (
	fcntlGetSeals    = 1034
	sealShrink       = 2
	clockMonotonic   = 1
	bootIDPath       = "/proc/sys/kernel/random/boot_id"
	memoryBytesLimit = 1 << 40
)

// mapFile maps a complete file for reading. The memory of a server must be sealed: any process with
// write access can truncate a named file, which would crash this process.
func mapFile(file *os.File, isServed bool) (*memory, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	var mapped []byte
	var failed error
	if err := raw.Control(func(fd uintptr) { mapped, failed = mapDescriptor(int(fd), isServed) }); err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, failed
	}
	return memoryOf(mapped), nil
}

func mapDescriptor(fd int, isServed bool) ([]byte, error) {
	var stat syscall.Stat_t
	if err := syscall.Fstat(fd, &stat); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	if stat.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return nil, errors.New("not a regular file: want the file of a cache, or the sealed memory of a server")
	}
	// Memory without a name comes from another process, whose truncation would crash this process.
	seals, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), fcntlGetSeals, 0)
	isSealed := errno == 0 && seals&sealShrink != 0
	if (isServed || stat.Nlink == 0) && !isSealed {
		return nil, errors.New("the memory is not sealed: want a descriptor that larderd or the library created for readers")
	}
	if stat.Size < memoryBytesMin || stat.Size > memoryBytesLimit {
		return nil, fmt.Errorf("%w (%d bytes)", ErrNoRegion, stat.Size)
	}
	mapped, err := syscall.Mmap(fd, 0, int(stat.Size), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return mapped, nil
}

// replaceWithZeros replaces the mapping with zeros, atomically for all threads. It releases the
// file, and concurrent reads find nothing.
func (m *memory) replaceWithZeros() {
	const flags = syscall.MAP_PRIVATE | syscall.MAP_ANON | syscall.MAP_FIXED | syscall.MAP_NORESERVE
	// On an error the file stays mapped until the view is collected, which is harmless.
	_, _, _ = syscall.Syscall6(syscall.SYS_MMAP, uintptr(m.base), uintptr(m.bytes), syscall.PROT_READ, flags, ^uintptr(0), 0)
}

// unmap releases the addresses. No goroutine may read from them any more.
func unmap(mapped []byte) { _ = syscall.Munmap(mapped) }

// monotonicNanos returns the system's monotonic clock, which counts from the boot.
func monotonicNanos() (int64, error) {
	var now syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0)
	if errno != 0 {
		return 0, os.NewSyscallError("clock_gettime", errno)
	}
	return now.Nano(), nil
}

// bootID returns the random number that identifies this boot of the system, as two integers in the
// order of the superblock: the low one first.
func bootID() (boot [2]uint64, err error) {
	text, err := os.ReadFile(bootIDPath)
	if err != nil {
		return boot, fmt.Errorf("cannot read the boot id: %w", err)
	}
	digits := strings.ReplaceAll(strings.TrimSpace(string(text)), "-", "")
	bytes, err := hex.DecodeString(digits)
	if err != nil || len(bytes) != 16 {
		return boot, fmt.Errorf("%s contains %q, want a boot id", bootIDPath, text)
	}
	return halves(bytes), nil
}
