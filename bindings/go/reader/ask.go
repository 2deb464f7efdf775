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
	"syscall"
	"time"
)

const (
	// answerTimeout is how long a server is waited for.
	answerTimeout  = 5 * time.Second
	answerBytesMax = 128
	request        = "larder_region\r\n"
	// busyPause is how long one waits whose connection the server has no room for yet.
	busyPause = time.Millisecond
)

// ErrNotPassed says that a server does not let this process read its memory, or has none that could be read.
var ErrNotPassed = errors.New("the server does not pass its memory; start larderd with --local-readers, for a user that this process is of")

// told is what a server says of its memory.
type told struct {
	identity     Identity
	bytes        uint64
	format       uint64
	readsPerHint uint32
}

// ask connects to a server and asks it for its memory. Of the two the caller has to close both.
func ask(ctx context.Context, socket string) (*net.UnixConn, *os.File, told, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	conn, err := dial(ctx, socket)
	if err != nil {
		return nil, nil, told{}, err
	}
	// Who cancels does not wait for the answer.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	line, passed, err := answer(conn)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	var says told
	if err == nil {
		says, err = parseAnswer(line)
	}
	if err == nil && passed == nil {
		err = fmt.Errorf("%w (it answered %q without a descriptor)", ErrNotPassed, line)
	}
	if err != nil {
		closeBoth(conn, passed)
		return nil, nil, told{}, err
	}
	return conn, passed, says, nil
}

func closeBoth(conn *net.UnixConn, passed *os.File) {
	_ = conn.Close()
	if passed != nil {
		_ = passed.Close()
	}
}

// dial connects. Where the server's queue of new connections is full, the system says so at once.
func dial(ctx context.Context, socket string) (*net.UnixConn, error) {
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "unix", socket)
		if err == nil {
			return conn.(*net.UnixConn), nil
		}
		if !errors.Is(err, syscall.EAGAIN) || ctx.Err() != nil {
			return nil, err
		}
		time.Sleep(busyPause)
	}
}

// answer sends the request, and receives a line and what comes with it.
func answer(conn *net.UnixConn) (line []byte, passed *os.File, err error) {
	if _, err := io.WriteString(conn, request); err != nil {
		return nil, nil, err
	}
	for len(line) < answerBytesMax {
		var room [answerBytesMax]byte
		n, file, err := receive(conn, room[:answerBytesMax-len(line)])
		switch {
		case file != nil && passed != nil:
			_ = file.Close()
		case file != nil:
			passed = file
		}
		if err != nil {
			return line, passed, err
		}
		if n == 0 {
			return line, passed, io.ErrUnexpectedEOF
		}
		line = append(line, room[:n]...)
		if end := bytes.IndexByte(line, '\n'); end >= 0 {
			return bytes.TrimRight(line[:end], "\r"), passed, nil
		}
	}
	return line, passed, fmt.Errorf("that is no memcached: it answers %q", line)
}

// parseAnswer reads `REGION <identity> <bytes> <format> <reads per hint>`.
func parseAnswer(line []byte) (told, error) {
	refused := fmt.Errorf("%w (it answered %q)", ErrNotPassed, line)
	words := bytes.Split(line, []byte(" "))
	if len(words) != 5 || string(words[0]) != "REGION" || len(words[1]) != 2*len(Identity{}) {
		return told{}, refused
	}
	var says told
	_, errIdentity := hex.Decode(says.identity[:], words[1])
	regionBytes, errBytes := strconv.ParseUint(string(words[2]), 10, 64)
	format, errFormat := strconv.ParseUint(string(words[3]), 10, 32)
	reads, errReads := strconv.ParseUint(string(words[4]), 10, 32)
	if errors.Join(errIdentity, errBytes, errFormat, errReads) != nil || reads == 0 {
		return told{}, refused
	}
	says.bytes, says.format, says.readsPerHint = regionBytes, format, uint32(reads)
	return says, nil
}

// region maps what a server has passed, if it is what the server says.
func (t *told) region(passed *os.File) (*Region, error) {
	if t.format != Format {
		return nil, &FieldError{"format", t.format, Format}
	}
	region, err := mapRegion(passed, true)
	if err != nil {
		return nil, err
	}
	switch view := region.view.Load(); {
	case region.identity != t.identity:
		err = fmt.Errorf("the server passed region %s and speaks of %s", region.identity, t.identity)
	case view.memory.bytes != t.bytes:
		err = &FieldError{"size in bytes", view.memory.bytes, t.bytes}
	default:
		return region, nil
	}
	_ = region.Close()
	return nil, err
}
