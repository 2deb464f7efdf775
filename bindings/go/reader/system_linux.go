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

// mapFile maps a whole file, to be read only. What a server passes must be sealed: a file with a name can be cut off by all
// who may write to it, which would end this process.
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
		return nil, errors.New("it is not a regular file; a cache is in one, or in a sealed memory that a server passes")
	}
	// Memory without a name comes from another process: should it be cut off, a read of it would end this one.
	seals, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), fcntlGetSeals, 0)
	isSealed := errno == 0 && seals&sealShrink != 0
	if (isServed || stat.Nlink == 0) && !isSealed {
		return nil, errors.New("its length can change, for it is not sealed; pass a descriptor that larderd or the library made for readers")
	}
	if stat.Size < memoryBytesMin || stat.Size > memoryBytesLimit {
		return nil, fmt.Errorf("%w; it has %d bytes", ErrNoRegion, stat.Size)
	}
	mapped, err := syscall.Mmap(fd, 0, int(stat.Size), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return mapped, nil
}

// empty puts zeros in the mapping's place, at once and for all threads: the file is let go of, and who is just reading
// reads on, and finds that nothing is there.
func (m *memory) replaceWithZeros() {
	const flags = syscall.MAP_PRIVATE | syscall.MAP_ANON | syscall.MAP_FIXED | syscall.MAP_NORESERVE
	// Where the system has no memory for that the file stays mapped until the mapping goes: nothing else is different.
	_, _, _ = syscall.Syscall6(syscall.SYS_MMAP, uintptr(m.base), uintptr(m.bytes), syscall.PROT_READ, flags, ^uintptr(0), 0)
}

// unmap gives the addresses back. Nobody may read there any more.
func unmap(mapped []byte) { _ = syscall.Munmap(mapped) }

// monotonicNanos is the system's monotonic clock, which counts from its boot.
func monotonicNanos() (int64, error) {
	var now syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0)
	if errno != 0 {
		return 0, os.NewSyscallError("clock_gettime", errno)
	}
	return now.Nano(), nil
}

// bootID is the number that the system gave this boot, its halves as they stand in a superblock: the low one first.
func bootID() (boot [2]uint64, err error) {
	text, err := os.ReadFile(bootIDPath)
	if err != nil {
		return boot, fmt.Errorf("the system does not say which boot this is: %w", err)
	}
	digits := strings.ReplaceAll(strings.TrimSpace(string(text)), "-", "")
	bytes, err := hex.DecodeString(digits)
	if err != nil || len(bytes) != 16 {
		return boot, fmt.Errorf("%s info %q, which is no boot's number", bootIDPath, text)
	}
	return halves(bytes), nil
}
