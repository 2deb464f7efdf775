package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"larder.example/larder/internal/check"
	"larder.example/larder/internal/testserver"
)

// dial connects to a server's unix socket, with a deadline for the whole test.
func dial(t *testing.T, socket string) *Conn {
	t.Helper()
	c, err := Dial(context.Background(), "unix", socket)
	check.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(10 * time.Second))
	return c
}

func TestConnInAllProtocols(t *testing.T) {
	for _, server := range []string{"larderd", "memcached"} {
		t.Run(server, func(t *testing.T) {
			socket := testserver.Start(t, server)
			c := dial(t, socket)
			value := bytes.Repeat([]byte("v"), 100_000)
			check.NoError(t, c.Send(
				&TextRequest{Verb: TextSet, Keys: Words("k"), Flags: 5, Value: value},
				&TextRequest{Verb: TextGet, Keys: Words("k")}))
			var line TextResponse
			for _, want := range []TextKind{TextStored, TextValue, TextEnd} {
				check.NoError(t, c.Receive(&line))
				check.Equal(t, "Kind", line.Kind, want)
				if want == TextValue {
					check.Equal(t, "value arrived", bytes.Equal(line.Value, value), true)
				}
			}
			check.NoError(t, c.Send(&MetaRequest{Verb: MetaGet, Key: []byte("k"), Flags: MetaFlags("f s")}))
			var meta MetaResponse
			check.NoError(t, c.Receive(&meta))
			check.Equal(t, "Flags", string(meta.Flags), "f5 s100000")

			c = dial(t, socket)
			check.NoError(t, c.Send(
				&BinaryRequest{Opcode: OpGetQ, Opaque: 1, Key: []byte("none")},
				&BinaryRequest{Opcode: OpGetK, Opaque: 2, Key: []byte("k")}))
			var binary BinaryResponse
			check.NoError(t, c.Receive(&binary))
			check.Equal(t, "Opaque", binary.Opaque, 2)
			check.Equal(t, "Key", string(binary.Key), "k")
			check.Equal(t, "value arrived", bytes.Equal(binary.Value, value), true)
			check.Equal(t, "Buffered", c.Buffered(), 0)
		})
	}
}

// Every opcode that memcached lists has a name, and the server recognizes all opcodes that it
// implements.
func TestOpcodesAreNamed(t *testing.T) {
	named := 0
	for o := range 256 {
		if !strings.HasPrefix(Opcode(o).String(), "0x") {
			named++
		}
	}
	// GET to GATQ, the three of SASL, GATK and GATKQ, and the range commands.
	check.Equal(t, "named opcodes", named, 0x1f+3+2+13)
	for _, server := range []string{"larderd", "memcached"} {
		t.Run(server, func(t *testing.T) {
			c := dial(t, testserver.Start(t, server))
			for o := OpGet; o < OpRGet; o++ {
				loud := o.Loud()
				if loud == OpQuit || loud == OpVerbosity || o.String()[0] == '0' || o >= OpSASLListMechs && o <= OpSASLStep {
					continue
				}
				check.NoError(t, c.Send(sampleOf(o), &BinaryRequest{Opcode: OpNoOp, Opaque: 99}))
				var r BinaryResponse
				for r.Opaque != 99 {
					check.NoError(t, c.Receive(&r))
					check.Equal(t, o.String()+" is unknown", r.Status == StatusUnknownCommand, false)
				}
			}
		})
	}
}

// sampleOf returns a valid request.
func sampleOf(o Opcode) *BinaryRequest {
	r := &BinaryRequest{Opcode: o, Opaque: 1, Key: []byte("k")}
	switch o.Loud() {
	case OpSet, OpAdd, OpReplace:
		r.Extras, r.Value = AppendStoreExtras(nil, 0, 0), []byte("1")
	case OpAppend, OpPrepend:
		r.Value = []byte("1")
	case OpIncrement, OpDecrement:
		r.Extras = AppendCountExtras(nil, 1, 1, 0)
	case OpTouch, OpGAT, OpGATK:
		r.Extras = AppendUint32Extras(nil, 0)
	case OpFlush, OpNoOp, OpVersion, OpStat:
		r.Key = nil
	}
	return r
}

func TestOpcodeLoud(t *testing.T) {
	for quiet, loud := range map[Opcode]Opcode{
		OpGetQ: OpGet, OpGetKQ: OpGetK, OpSetQ: OpSet, OpFlushQ: OpFlush, OpQuitQ: OpQuit, OpAppendQ: OpAppend,
		OpPrependQ: OpPrepend, OpGATQ: OpGAT, OpGATKQ: OpGATK, OpRSetQ: OpRSet, OpRDecrQ: OpRDecr, OpGet: OpGet,
		OpVerbosity: OpVerbosity, OpRGet: OpRGet, 0xff: 0xff,
	} {
		check.Equal(t, quiet.String()+".Loud", quiet.Loud(), loud)
		if quiet != loud {
			check.Equal(t, "name of "+quiet.String(), quiet.String(), loud.String()+"Q")
		}
	}
}

func TestConnAuthPlain(t *testing.T) {
	users := filepath.Join(t.TempDir(), "users")
	check.NoError(t, os.WriteFile(users, []byte("app:secret\n"), 0o600))
	t.Setenv("MEMCACHED_SASL_PWDB", users)
	socket := testserver.Start(t, "larderd", "-S")
	check.ErrorIs(t, "AuthPlain", dial(t, socket).AuthPlain("app", "guess"), ErrAuth)
	c := dial(t, socket)
	check.NoError(t, c.AuthPlain("app", "secret"))
	check.NoError(t, c.Send(&BinaryRequest{Opcode: OpNoOp}))
	var r BinaryResponse
	check.NoError(t, c.Receive(&r))
	check.Equal(t, "Status", r.Status, StatusOK)
}

func TestConnAuthPlainOfOddServer(t *testing.T) {
	challenge := BinaryResponse{Opcode: OpSASLAuth, Status: StatusAuthContinue}
	other := BinaryResponse{Opcode: OpGet}
	for name, test := range map[string]struct {
		response []byte
		want     func(error) bool
	}{
		"challenge": {challenge.AppendTo(nil), func(err error) bool { return errors.Is(err, ErrAuth) }},
		"other":     {other.AppendTo(nil), isSyntaxError},
		"garbage":   {[]byte("HTTP/1.1 400 Bad Request\r\n"), isSyntaxError},
		"closed":    {nil, func(err error) bool { return err == io.ErrUnexpectedEOF }},
		"half":      {challenge.AppendTo(nil)[:20], func(err error) bool { return err == io.ErrUnexpectedEOF }},
	} {
		here, there := net.Pipe()
		go func() {
			there.Read(make([]byte, 100))
			there.Write(test.response)
			there.Close()
		}()
		if err := NewConn(here, 0).AuthPlain("a", "b"); !test.want(err) {
			t.Errorf("%s: AuthPlain: unexpected error %v", name, err)
		}
		here.Close()
	}
}

func isSyntaxError(err error) bool {
	var wrong *SyntaxError
	return errors.As(err, &wrong)
}

func TestConnDeadline(t *testing.T) {
	check.GoroutineLeaks(t)
	here, there := net.Pipe()
	defer there.Close()
	c := NewConn(here, 0)
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Millisecond))
	check.ErrorIs(t, "Receive", c.Receive(new(TextResponse)), os.ErrDeadlineExceeded)
	check.ErrorIs(t, "Send", c.Send(&TextRequest{Verb: TextVersion}), os.ErrDeadlineExceeded)
}

func TestConnLimitsMessages(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	go io.WriteString(there, "VA 2000\r\n"+strings.Repeat("x", 2000)+"\r\nEN\r\n")
	c := NewConn(here, 1000)
	defer c.Close()
	var large *TooLargeError
	if err := c.Receive(new(MetaResponse)); !errors.As(err, &large) {
		t.Fatalf("Receive: error %v, want a TooLargeError", err)
	}
	var next MetaResponse
	check.NoError(t, c.Receive(&next))
	check.Equal(t, "Status", next.Status, MetaMiss)
}
