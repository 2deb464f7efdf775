package reader

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"
)

const (
	// responseTimeout limits the wait for a server.
	responseTimeout  = 5 * time.Second
	responseBytesMax = 128
	request          = "larder_region\r\n"
	// queueFullPause is the pause before another attempt to connect to a server whose queue of
	// connections is full.
	queueFullPause = time.Millisecond
)

// ErrNotShared means that a server does not share its memory with this process, or cannot share it.
var ErrNotShared = errors.New("the server does not share its memory: start larderd with --local-readers for this user")

// serverInfo is a server's description of its memory.
type serverInfo struct {
	identity     Identity
	bytes        uint64
	format       uint64
	readsPerHint uint32
}

// requestRegion connects to a server and requests its memory. The caller closes both results.
func requestRegion(ctx context.Context, socket string) (*net.UnixConn, *os.File, serverInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, responseTimeout)
	defer cancel()
	conn, err := dial(ctx, socket)
	if err != nil {
		return nil, nil, serverInfo{}, err
	}
	// When ctx ends, a deadline in the past ends the wait for the response.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	line, file, err := exchange(conn)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	var info serverInfo
	if err == nil {
		info, err = parseResponse(line)
	}
	if err == nil && file == nil {
		err = fmt.Errorf("%w (response %q without a descriptor)", ErrNotShared, line)
	}
	if err != nil {
		closeBoth(conn, file)
		return nil, nil, serverInfo{}, err
	}
	return conn, file, info, nil
}

func closeBoth(conn *net.UnixConn, file *os.File) {
	_ = conn.Close()
	if file != nil {
		_ = file.Close()
	}
}

// dial connects. If the server's queue of new connections is full, the system immediately returns
// EAGAIN, and dial tries again.
func dial(ctx context.Context, socket string) (*net.UnixConn, error) {
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "unix", socket)
		if err == nil {
			return conn.(*net.UnixConn), nil
		}
		if !isQueueFull(err) || ctx.Err() != nil {
			return nil, err
		}
		time.Sleep(queueFullPause)
	}
}

// exchange sends the request, and receives a line and the descriptor that is sent with it.
func exchange(conn *net.UnixConn) (line []byte, shared *os.File, err error) {
	if _, err := io.WriteString(conn, request); err != nil {
		return nil, nil, err
	}
	for len(line) < responseBytesMax {
		var buf [responseBytesMax]byte
		n, file, err := receive(conn, buf[:responseBytesMax-len(line)])
		switch {
		case file != nil && shared != nil:
			_ = file.Close()
		case file != nil:
			shared = file
		}
		if err != nil {
			return line, shared, err
		}
		if n == 0 {
			return line, shared, io.ErrUnexpectedEOF
		}
		line = append(line, buf[:n]...)
		if end := bytes.IndexByte(line, '\n'); end >= 0 {
			return bytes.TrimRight(line[:end], "\r"), shared, nil
		}
	}
	return line, shared, fmt.Errorf("not a memcached: response %q", line)
}

// parseResponse parses `REGION <identity> <bytes> <format> <reads per hint>`.
func parseResponse(line []byte) (serverInfo, error) {
	refused := fmt.Errorf("%w (response %q)", ErrNotShared, line)
	words := bytes.Split(line, []byte(" "))
	if len(words) != 5 || string(words[0]) != "REGION" || len(words[1]) != 2*len(Identity{}) {
		return serverInfo{}, refused
	}
	var info serverInfo
	_, errIdentity := hex.Decode(info.identity[:], words[1])
	regionBytes, errBytes := strconv.ParseUint(string(words[2]), 10, 64)
	format, errFormat := strconv.ParseUint(string(words[3]), 10, 32)
	reads, errReads := strconv.ParseUint(string(words[4]), 10, 32)
	if errors.Join(errIdentity, errBytes, errFormat, errReads) != nil || reads == 0 {
		return serverInfo{}, refused
	}
	info.bytes, info.format, info.readsPerHint = regionBytes, format, uint32(reads)
	return info, nil
}

// region maps the file of a server, and checks it against the server's description.
func (s *serverInfo) region(file *os.File) (*Region, error) {
	if s.format != Format {
		return nil, &FieldError{"format", s.format, Format}
	}
	region, err := mapRegion(file, true)
	if err != nil {
		return nil, err
	}
	switch view := region.view.Load(); {
	case region.identity != s.identity:
		err = fmt.Errorf("the server shared region %s, but announced %s", region.identity, s.identity)
	case view.memory.bytes != s.bytes:
		err = &FieldError{"size in bytes", view.memory.bytes, s.bytes}
	default:
		return region, nil
	}
	_ = region.Close()
	return nil, err
}
