//go:build linux && (amd64 || arm64 || loong64 || ppc64le || riscv64)

package reader

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// receive reads bytes and the descriptor that comes with them. It closes further descriptors, which
// a server does not send.
func receive(conn *net.UnixConn, into []byte) (n int, file *os.File, err error) {
	ancillary := make([]byte, syscall.CmsgSpace(4))
	n, ancillaryBytes, _, _, err := conn.ReadMsgUnix(into, ancillary)
	if err != nil {
		return n, nil, err
	}
	messages, err := syscall.ParseSocketControlMessage(ancillary[:ancillaryBytes])
	if err != nil {
		return n, nil, os.NewSyscallError("recvmsg", err)
	}
	for _, message := range messages {
		descriptors, err := syscall.ParseUnixRights(&message)
		if err != nil {
			continue
		}
		for _, descriptor := range descriptors {
			if file != nil {
				_ = syscall.Close(descriptor)
				continue
			}
			file = os.NewFile(uintptr(descriptor), "the memory of a cache")
		}
	}
	return n, file, nil
}

// sendSome sends as many bytes as the socket accepts without blocking.
func sendSome(fd uintptr, bytes []byte) (int, error) {
	const flags = syscall.MSG_DONTWAIT | syscall.MSG_NOSIGNAL
	sent, err := syscall.SendmsgN(int(fd), bytes, nil, nil, flags)
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
		return 0, nil
	}
	return max(sent, 0), err
}
