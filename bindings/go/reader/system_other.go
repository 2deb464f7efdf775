//go:build !(linux && (amd64 || arm64 || loong64 || ppc64le || riscv64))

package reader

import (
	"errors"
	"fmt"
	"net"
	"os"
)

// errElsewhere: the memory of a cache is shared on Linux only, and its numbers are little-endian ones of 64 bits. What
// uses this package compiles everywhere, and asks the server where this says no.
var errElsewhere = fmt.Errorf("a cache's memory can be read on 64-bit little-endian Linux only: %w", errors.ErrUnsupported)

func mapFile(*os.File, bool) (*memory, error)              { return nil, errElsewhere }
func (m *memory) replaceWithZeros()                        {}
func unmap([]byte)                                         {}
func monotonicNanos() (int64, error)                       { return 0, errElsewhere }
func bootID() ([2]uint64, error)                           { return [2]uint64{}, errElsewhere }
func receive(*net.UnixConn, []byte) (int, *os.File, error) { return 0, nil, errElsewhere }
func sendSome(uintptr, []byte) (int, error)                { return 0, errElsewhere }
