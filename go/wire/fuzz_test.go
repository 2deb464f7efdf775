package wire

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"
)

// checkCodec checks any input: an encoded message parses to itself, and the split of the input into
// reads makes no difference.
func checkCodec[M any, P interface {
	*M
	codec
}](t *testing.T, b []byte, cut uint) {
	whole := P(new(M))
	n, err := whole.Parse(b)
	var wrong *SyntaxError
	if err != nil && err != ErrShort && !errors.As(err, &wrong) {
		t.Fatalf("Parse(%q): error %v, want nil, ErrShort or a SyntaxError", b, err)
	}
	if n < 0 || err == nil && (n == 0 || n > len(b)) {
		t.Fatalf("Parse(%q) = %d, %v, want a length within the input", b, n, err)
	}
	if err == nil {
		written := whole.AppendTo(nil)
		again := P(new(M))
		if m, err := again.Parse(written); err != nil || m != len(written) {
			t.Fatalf("Parse(%q) of the encoded %q = %d, %v, want %d", written, b, m, err, len(written))
		}
		if rewritten := again.AppendTo(nil); !bytes.Equal(rewritten, written) {
			t.Fatalf("%q encoded = %q, and encoded again = %q", b, written, rewritten)
		}
	}
	if got, want := read[M, P](cutReader(b, cut)), read[M, P](bytes.NewReader(b)); !reflect.DeepEqual(got, want) {
		t.Fatalf("%q in pieces of %d = %q, want %q", b, cut%7+1, got, want)
	}
}

// read returns the messages that a reader parses from a stream, encoded, and its errors.
func read[M any, P interface {
	*M
	codec
}](source io.Reader) (results []string) {
	r, m := NewReader(source, 1<<20), P(new(M))
	for range 100 {
		err := r.Read(m)
		if err == nil {
			results = append(results, string(m.AppendTo(nil)))
			continue
		}
		var wrong *SyntaxError
		if errors.As(err, &wrong) {
			results = append(results, wrong.Reply)
			if r.skip > 0 {
				continue
			}
			return results
		}
		return append(results, err.Error())
	}
	return results
}

type pieces struct {
	b    []byte
	size int
}

func cutReader(b []byte, cut uint) io.Reader { return &pieces{b, int(cut%7) + 1} }

func (p *pieces) Read(dst []byte) (int, error) {
	if len(p.b) == 0 {
		return 0, io.EOF
	}
	n := copy(dst, p.b[:min(p.size, len(p.b))])
	p.b = p.b[n:]
	return n, nil
}

func seed(f *testing.F) {
	for _, c := range goldenText {
		f.Add([]byte(c.bytes), uint(2))
	}
	f.Add(sampleBytes, uint(5))
	f.Add(sampleResponseBytes, uint(5))
	f.Add([]byte(" \x80\n"), uint(2))
	f.Add([]byte("A \r\n\x00"), uint(2))
	f.Add([]byte("set k 0 0 -1\r\nabc\r\nget a\r\n"), uint(0))
	f.Add([]byte("ms k 2 S S\r\nab\r\nmn\r\nms a 2\r\nabcd\r\n"), uint(3))
}

func FuzzMetaRequest(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, b []byte, cut uint) { checkCodec[MetaRequest](t, b, cut) })
}

func FuzzMetaResponse(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, b []byte, cut uint) { checkCodec[MetaResponse](t, b, cut) })
}

func FuzzTextRequest(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, b []byte, cut uint) { checkCodec[TextRequest](t, b, cut) })
}

func FuzzTextResponse(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, b []byte, cut uint) { checkCodec[TextResponse](t, b, cut) })
}

func FuzzBinaryRequest(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, b []byte, cut uint) { checkCodec[BinaryRequest](t, b, cut) })
}

func FuzzBinaryResponse(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, b []byte, cut uint) { checkCodec[BinaryResponse](t, b, cut) })
}

func FuzzRequest(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, b []byte, cut uint) { checkCodec[Request](t, b, cut) })
}
