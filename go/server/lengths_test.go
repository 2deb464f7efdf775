package server

import (
	"io"
	"math"
	"net"
	"strconv"
	"strings"
	"testing"

	"larder.example/larder/internal/check"
	"larder.example/larder/internal/grammar"
	"larder.example/larder/wire"
)

// A client that announces a value may send it: what follows the announcement is not a command. An
// int of 32 bits cannot hold the sum of the longest value and its line.
func TestLongValuesAreIgnoredToTheirEnd(t *testing.T) {
	_, socket := start(t, withTokens())
	announced := func(length uint32) []string {
		text := strconv.FormatUint(uint64(length), 10)
		binary := wire.BinaryRequest{Opcode: wire.OpSet, Key: []byte("k"), Extras: make([]byte, 8)}
		requests := []string{string(binary.AppendHeadTo(nil, int(min(length, math.MaxInt32-64))))}
		if length <= grammar.ValueMax {
			longest := strings.Repeat("k", grammar.KeyMax)
			requests = append(requests, "set "+longest+" 0 0 "+text+"\r\n", "ms "+longest+" "+text+" MA\r\n",
				"set k 0 0 "+text+"\r\n", "set k none 0 "+text+"\r\n",
				"cas k 0 0 "+text+" none\r\n", "add "+strings.Repeat("k", 251)+" 0 0 "+text+" noreply\r\n",
				"ms k "+text+"\r\n", "ms k "+text+" c c\r\n", "ms k "+text+" MX\r\n")
		}
		return requests
	}
	for _, length := range []uint32{1 << 21, 1 << 30, math.MaxInt32 - 300, math.MaxInt32 - 64, math.MaxInt32 - 8, grammar.ValueMax} {
		for _, request := range announced(length) {
			conn := dial(t, socket)
			check.NoError(t, send(conn, []byte(request+"\r\nversion\r\nmn\r\n"), 0))
			check.NoError(t, conn.(*net.UnixConn).CloseWrite())
			responses, err := io.ReadAll(conn)
			check.NoError(t, err)
			check.Equal(t, "responses to "+strconv.Quote(request), string(responses), "")
		}
	}
}

func TestLongestBodiesOfBinaryRequestsAreIgnored(t *testing.T) {
	_, socket := start(t, withTokens())
	for _, length := range []uint32{math.MaxInt32 - 2, math.MaxInt32, math.MaxInt32 + 1, math.MaxUint32} {
		request := (&wire.BinaryRequest{Opcode: wire.OpSet, Key: []byte("k"), Extras: make([]byte, 8)}).AppendTo(nil)
		request[8], request[9], request[10], request[11] = byte(length>>24), byte(length>>16), byte(length>>8), byte(length)
		noOp := (&wire.BinaryRequest{Opcode: wire.OpNoOp}).AppendTo(nil)
		conn := dial(t, socket)
		check.NoError(t, send(conn, append(request, noOp...), 0))
		check.NoError(t, conn.(*net.UnixConn).CloseWrite())
		responses, err := io.ReadAll(conn)
		check.NoError(t, err)
		check.Equal(t, "responses to a body of "+strconv.FormatUint(uint64(length), 10), string(responses), "")
	}
}
