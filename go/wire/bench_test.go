package wire

import (
	"bytes"
	"io"
	"testing"
)

// The 17 micro-benchmarks of gomemcached on its own message, for a comparison of the numbers.
// Requests and responses are built and encoded each time. Where gomemcached reads with or without
// the caller's buffer, a message is parsed from a buffer, or read from a connection through a
// Reader.

var large = bytes.Repeat([]byte("x"), 24<<10)

func (r *BinaryRequest) build(cas uint64, extras, value []byte) {
	r.Opcode, r.CAS, r.Opaque, r.VBucket = OpSet, cas, 7242, 824
	r.Extras, r.Key, r.Value = extras, sampleRequest.Key, value
}

func (r *BinaryResponse) build(value []byte) {
	r.Opcode, r.Status, r.CAS, r.Opaque = OpSet, 1582, 938424885, 7242
	r.Key, r.Value = sampleRequest.Key, value
}

func benchmarkRequest(b *testing.B, cas uint64, extras []byte) {
	var r BinaryRequest
	buf := make([]byte, 0, 128)
	b.ReportAllocs()
	for b.Loop() {
		r.build(cas, extras, sampleRequest.Value)
		buf = r.AppendTo(buf[:0])
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkEncodingRequest(b *testing.B)       { benchmarkRequest(b, 938424885, nil) }
func BenchmarkEncodingRequest0CAS(b *testing.B)   { benchmarkRequest(b, 0, nil) }
func BenchmarkEncodingRequest1Extra(b *testing.B) { benchmarkRequest(b, 938424885, []byte{1}) }

func BenchmarkReceiveRequest(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		var r BinaryRequest
		if _, err := r.Parse(sampleBytes); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReceiveRequestNoBuf(b *testing.B) {
	benchmarkRead(b, &BinaryRequest{}, sampleBytes)
}

func BenchmarkEncodingResponse(b *testing.B) { benchmarkResponse(b, sampleResponse.Value) }

// The value is not copied, so only the part before it is encoded.
func BenchmarkEncodingResponseLarge(b *testing.B) {
	var r BinaryResponse
	buf := make([]byte, 0, 128)
	b.ReportAllocs()
	for b.Loop() {
		r.build(nil)
		buf = r.AppendHeadTo(buf[:0], len(large))
	}
}

func BenchmarkEncodingResponseLargeCopied(b *testing.B) { benchmarkResponse(b, large) }

func benchmarkResponse(b *testing.B, value []byte) {
	var r BinaryResponse
	buf := make([]byte, 0, 64<<10)
	b.ReportAllocs()
	for b.Loop() {
		r.build(value)
		buf = r.AppendTo(buf[:0])
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkReceiveResponse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		var r BinaryResponse
		if _, err := r.Parse(sampleResponseBytes); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReceiveResponseNoBuf(b *testing.B) {
	benchmarkRead(b, &BinaryResponse{}, sampleResponseBytes)
}

func BenchmarkTransmitReq(b *testing.B)      { benchmarkTransmit(b, true, sampleRequest.Value) }
func BenchmarkTransmitReqLarge(b *testing.B) { benchmarkTransmit(b, true, large) }
func BenchmarkTransmitReqNull(b *testing.B)  { benchmarkTransmit(b, true, nil) }
func BenchmarkTransmitRes(b *testing.B)      { benchmarkTransmit(b, false, sampleRequest.Value) }
func BenchmarkTransmitResLarge(b *testing.B) { benchmarkTransmit(b, false, large) }
func BenchmarkTransmitResNull(b *testing.B)  { benchmarkTransmit(b, false, nil) }

func benchmarkTransmit(b *testing.B, isRequest bool, value []byte) {
	w := NewWriter(io.Discard)
	var request BinaryRequest
	var response BinaryResponse
	b.ReportAllocs()
	for b.Loop() {
		if isRequest {
			request.build(938424885, nil, nil)
			w.SetBuffer(request.AppendHeadTo(w.Buffer(), len(value)))
		} else {
			response.build(nil)
			w.SetBuffer(response.AppendHeadTo(w.Buffer(), len(value)))
		}
		w.Value(value, "")
		if err := w.Flush(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeResponse(b *testing.B) { benchmarkRead(b, &BinaryResponse{}, sampleResponseBytes) }
func BenchmarkReceive(b *testing.B)        { benchmarkRead(b, &BinaryRequest{}, sampleBytes) }

// endless is a connection that repeats the same message.
type endless struct {
	message []byte
	at      int
}

func (e *endless) Read(dst []byte) (n int, err error) {
	for n < len(dst) {
		copied := copy(dst[n:], e.message[e.at:])
		n += copied
		e.at = (e.at + copied) % len(e.message)
	}
	return n, nil
}

func benchmarkRead(b *testing.B, m Parser, message []byte) {
	r := NewReader(&endless{message: message}, 0)
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Read(m); err != nil {
			b.Fatal(err)
		}
	}
}

// The same operations in the other protocols.

func BenchmarkMetaEncodeSet(b *testing.B) {
	buf := make([]byte, 0, 128)
	flags := MetaFlags("T60 F5")
	b.ReportAllocs()
	for b.Loop() {
		r := MetaRequest{Verb: MetaSet, Key: sampleRequest.Key, Flags: flags, Value: sampleRequest.Value}
		buf = r.AppendTo(buf[:0])
	}
}

func BenchmarkMetaParseValue(b *testing.B) {
	message := []byte("VA 9 c938424885 f5\r\nsomevalue\r\n")
	b.ReportAllocs()
	for b.Loop() {
		var r MetaResponse
		if _, err := r.Parse(message); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTextEncodeSet(b *testing.B) {
	buf := make([]byte, 0, 128)
	b.ReportAllocs()
	for b.Loop() {
		r := TextRequest{Verb: TextSet, Keys: Words(sampleRequest.Key), Flags: 5, Exptime: 60, Value: sampleRequest.Value}
		buf = r.AppendTo(buf[:0])
	}
}

func BenchmarkTextParseValue(b *testing.B) {
	message := []byte("VALUE somekey 5 9 938424885\r\nsomevalue\r\n")
	b.ReportAllocs()
	for b.Loop() {
		var r TextResponse
		if _, err := r.Parse(message); err != nil {
			b.Fatal(err)
		}
	}
}
