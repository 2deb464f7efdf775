//go:build !(linux && (amd64 || arm64 || loong64 || ppc64le || riscv64))

package reader

import (
	"errors"
	"fmt"
	"net"
	"os"
)

// errElsewhere is the error of all functions that open a cache: sharing needs Linux, and the format
// is 64-bit little-endian. Programs that use this package compile everywhere and use the socket.
var errElsewhere = fmt.Errorf("reading a cache's memory requires 64-bit little-endian Linux: %w", errors.ErrUnsupported)

func mapFile(*os.File, bool) (*memory, error)              { return nil, errElsewhere }
func (m *memory) replaceWithZeros()                        {}
func unmap([]byte)                                         {}
func monotonicNanos() (int64, error)                       { return 0, errElsewhere }
func bootID() ([2]uint64, error)                           { return [2]uint64{}, errElsewhere }
func receive(*net.UnixConn, []byte) (int, *os.File, error) { return 0, nil, errElsewhere }
func sendSome(uintptr, []byte) (int, error)                { return 0, errElsewhere }
