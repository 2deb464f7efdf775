package wire

import (
	"bytes"
	"fmt"
	"testing"

	"larder.example/larder/internal/check"
)

// The message of gomemcached's tests and benchmarks.
var (
	sampleRequest = BinaryRequest{Opcode: OpSet, CAS: 938424885, Opaque: 7242, VBucket: 824, Key: []byte("somekey"), Value: []byte("somevalue")}
	sampleBytes   = []byte{
		0x80, 0x01, 0, 7, 0, 0, 0x03, 0x38, 0, 0, 0, 16, 0, 0, 0x1c, 0x4a, 0, 0, 0, 0, 0x37, 0xef, 0x3a, 0x35,
		's', 'o', 'm', 'e', 'k', 'e', 'y', 's', 'o', 'm', 'e', 'v', 'a', 'l', 'u', 'e',
	}
	sampleResponse      = BinaryResponse{Opcode: OpSet, Status: 1582, CAS: 938424885, Opaque: 7242, Key: []byte("somekey"), Value: []byte("somevalue")}
	sampleResponseBytes = append([]byte{
		0x81, 0x01, 0, 7, 0, 0, 0x06, 0x2e, 0, 0, 0, 16, 0, 0, 0x1c, 0x4a, 0, 0, 0, 0, 0x37, 0xef, 0x3a, 0x35,
	}, "somekeysomevalue"...)
)

func TestBinaryMessagesMatchProtocol(t *testing.T) {
	for _, c := range []struct {
		message codec
		bytes   []byte
	}{
		{&sampleRequest, sampleBytes},
		{&sampleResponse, sampleResponseBytes},
		// From the protocol documentation: a get of Hello and its response, an add, an increment.
		{&BinaryRequest{Opcode: OpGet, Key: []byte("Hello")}, append([]byte{0x80, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 5, 23: 0}, "Hello"...)},
		{
			&BinaryResponse{Opcode: OpGet, CAS: 1, Extras: AppendUint32Extras(nil, 0xdeadbeef), Value: []byte("World")},
			append([]byte{0x81, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 9, 23: 1}, "\xde\xad\xbe\xefWorld"...),
		},
		{
			&BinaryRequest{Opcode: OpAdd, Extras: AppendStoreExtras(nil, 0xdeadbeef, 0x0e10), Key: []byte("Hello"), Value: []byte("World")},
			append([]byte{0x80, 2, 0, 5, 8, 0, 0, 0, 0, 0, 0, 18, 23: 0}, "\xde\xad\xbe\xef\x00\x00\x0e\x10HelloWorld"...),
		},
		{
			&BinaryRequest{Opcode: OpIncrement, Extras: AppendCountExtras(nil, 1, 0, 0x0e10), Key: []byte("counter")},
			append([]byte{0x80, 5, 0, 7, 20, 0, 0, 0, 0, 0, 0, 27, 23: 0}, "\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0e\x10counter"...),
		},
		{&BinaryRequest{Opcode: 0xe7, DataType: 5, Key: []byte("unknown opcodes are nothing special")}, nil},
	} {
		encoded := c.message.AppendTo([]byte("before"))[len("before"):]
		if c.bytes != nil && !bytes.Equal(encoded, c.bytes) {
			t.Errorf("AppendTo of %+v = % x, want % x", c.message, encoded, c.bytes)
		}
		var n int
		var err error
		var again []byte
		switch c.message.(type) {
		case *BinaryRequest:
			var parsed BinaryRequest
			n, err = parsed.Parse(append(encoded, "next"...))
			again = parsed.AppendTo(nil)
		case *BinaryResponse:
			var parsed BinaryResponse
			n, err = parsed.Parse(append(encoded, "next"...))
			again = parsed.AppendTo(nil)
		}
		if err != nil || n != len(encoded) {
			t.Errorf("Parse(% x) = %d, %v, want %d", encoded, n, err, len(encoded))
		}
		if !bytes.Equal(again, encoded) {
			t.Errorf("AppendTo of the parsed message = % x, want % x", again, encoded)
		}
	}
}

func TestParseSetsHeaderBeforeBodyArrives(t *testing.T) {
	for cut := range sampleBytes {
		var r BinaryRequest
		n, err := r.Parse(sampleBytes[:cut])
		if err != ErrShort {
			t.Fatalf("Parse of %d bytes: error %v, want %v", cut, err, ErrShort)
		}
		if cut >= BinaryHeaderBytes {
			check.Equal(t, "length", n, len(sampleBytes))
			check.Equal(t, "Opcode", r.Opcode, OpSet)
			check.Equal(t, "Opaque", r.Opaque, 7242)
		}
	}
}

func TestOpcodeIsQuiet(t *testing.T) {
	quiet := 0
	for o := range 256 {
		if Opcode(o).IsQuiet() {
			quiet++
		}
	}
	// GETQ and GETKQ, SETQ to PREPENDQ, GATQ and GATKQ, and six range commands.
	check.Equal(t, "quiet opcodes", quiet, 2+10+2+6)
	check.Equal(t, "OpRGet.IsQuiet", OpRGet.IsQuiet(), false)
	check.Equal(t, "OpRSetQ.IsQuiet", OpRSetQ.IsQuiet(), true)
}

func TestOpcodeAndStatusStrings(t *testing.T) {
	check.Equal(t, "known opcode", OpSASLListMechs.String(), "SASL_LIST_MECHS")
	check.Equal(t, "unknown opcode", Opcode(0xe7).String(), "0xe7")
	check.Equal(t, "known status", StatusNotFound.String(), "Not found")
	check.Equal(t, "unknown status", BinaryStatus(0x99).String(), "status 0x0099")
}

func TestExtras(t *testing.T) {
	if f, e, ok := ParseStoreExtras(AppendStoreExtras(nil, 1, 2)); f != 1 || e != 2 || !ok {
		t.Errorf("ParseStoreExtras = %d, %d, %v, want 1, 2, true", f, e, ok)
	}
	d, i, e, ok := ParseCountExtras(AppendCountExtras(nil, 1, 2, ExptimeNoCreate))
	if d != 1 || i != 2 || e != ExptimeNoCreate || !ok {
		t.Errorf("ParseCountExtras = %d, %d, %d, %v, want 1, 2, %d, true", d, i, e, ok, uint32(ExptimeNoCreate))
	}
	if v, ok := ParseUint32Extras(AppendUint32Extras(nil, 9)); v != 9 || !ok {
		t.Errorf("ParseUint32Extras = %d, %v, want 9, true", v, ok)
	}
	if v, ok := ParseCount([]byte{0, 0, 0, 0, 0, 0, 1, 0}); v != 256 || !ok {
		t.Errorf("ParseCount = %d, %v, want 256, true", v, ok)
	}
}

func TestExtrasOfWrongLength(t *testing.T) {
	for _, wrong := range [][]byte{nil, make([]byte, 7)} {
		_, _, storeOK := ParseStoreExtras(wrong)
		_, _, _, countOK := ParseCountExtras(wrong)
		_, uintOK := ParseUint32Extras(wrong)
		_, numberOK := ParseCount(wrong)
		for name, ok := range map[string]bool{
			"ParseStoreExtras": storeOK, "ParseCountExtras": countOK, "ParseUint32Extras": uintOK,
			"ParseCount": numberOK,
		} {
			check.Equal(t, fmt.Sprintf("%s of %d bytes", name, len(wrong)), ok, false)
		}
	}
}
