package wire

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

// codec is any message.
type codec interface {
	Parser
	AppendTo(dst []byte) []byte
}

func flags(s string) MetaFlags { return MetaFlags(s) }

// Each line is what stands in memcached's protocol.txt, or what memcached and larderd say.
var goldenText = []struct {
	message codec
	bytes   string
}{
	{&MetaRequest{Verb: MetaGet, Key: []byte("foo"), Flags: flags("t f v")}, "mg foo t f v\r\n"},
	{&MetaRequest{Verb: MetaGet, Key: []byte("foo")}, "mg foo\r\n"},
	{&MetaRequest{Verb: MetaSet, Key: []byte("foo"), Flags: flags("T60 F5"), Value: []byte("hi\r\nx")}, "ms foo 5 T60 F5\r\nhi\r\nx\r\n"},
	{&MetaRequest{Verb: MetaSet, Key: []byte("foo"), Value: []byte{}}, "ms foo 0\r\n\r\n"},
	{&MetaRequest{Verb: MetaDelete, Key: []byte("Zm9vIGJhcg=="), Flags: flags("b I T30")}, "md Zm9vIGJhcg== b I T30\r\n"},
	{&MetaRequest{Verb: MetaArithmetic, Key: []byte("n"), Flags: flags("N0 J13 D5 MI v")}, "ma n N0 J13 D5 MI v\r\n"},
	{&MetaRequest{Verb: MetaDebug, Key: []byte("foo")}, "me foo\r\n"},
	{&MetaRequest{Verb: MetaNoOp}, "mn\r\n"},

	{&MetaResponse{Status: MetaHeader, Flags: flags("c17 O9")}, "HD c17 O9\r\n"},
	{&MetaResponse{Status: MetaValue, Flags: flags("t-1 W"), Value: []byte("v\nv")}, "VA 3 t-1 W\r\nv\nv\r\n"},
	{&MetaResponse{Status: MetaValue, Value: []byte{}}, "VA 0\r\n\r\n"},
	{&MetaResponse{Status: MetaMiss}, "EN\r\n"},
	{&MetaResponse{Status: MetaNotStored, Flags: flags("kfoo")}, "NS kfoo\r\n"},
	{&MetaResponse{Status: MetaExists}, "EX\r\n"},
	{&MetaResponse{Status: MetaNotFound, Flags: flags("O1")}, "NF O1\r\n"},
	{&MetaResponse{Status: MetaNoOpDone}, "MN\r\n"},
	{&MetaResponse{Status: MetaDebugInfo, Text: []byte("foo exp=-1 la=3 cas=2 fetch=no cls=1 size=63")}, "ME foo exp=-1 la=3 cas=2 fetch=no cls=1 size=63\r\n"},
	{&MetaResponse{Status: MetaError}, "ERROR\r\n"},
	{&MetaResponse{Status: MetaClientError, Text: []byte("bad data chunk")}, "CLIENT_ERROR bad data chunk\r\n"},
	{&MetaResponse{Status: MetaServerError, Text: []byte("out of memory storing object")}, "SERVER_ERROR out of memory storing object\r\n"},

	{&TextRequest{Verb: TextGet, Keys: Words("a")}, "get a\r\n"},
	{&TextRequest{Verb: TextGets, Keys: Words("a noreply c")}, "gets a noreply c\r\n"},
	{&TextRequest{Verb: TextGat, Exptime: -1, Keys: Words("a b")}, "gat -1 a b\r\n"},
	{&TextRequest{Verb: TextGats, Exptime: 10, Keys: Words("a")}, "gats 10 a\r\n"},
	{&TextRequest{Verb: TextSet, Keys: Words("k"), Flags: 4294967295, Exptime: 60, Value: []byte("abc")}, "set k 4294967295 60 3\r\nabc\r\n"},
	{&TextRequest{Verb: TextAdd, Keys: Words("k"), Value: []byte{}, NoReply: true}, "add k 0 0 0 noreply\r\n\r\n"},
	{&TextRequest{Verb: TextReplace, Keys: Words("k"), Value: []byte("x")}, "replace k 0 0 1\r\nx\r\n"},
	{&TextRequest{Verb: TextAppend, Keys: Words("k"), Value: []byte("x")}, "append k 0 0 1\r\nx\r\n"},
	{&TextRequest{Verb: TextPrepend, Keys: Words("k"), Value: []byte("x")}, "prepend k 0 0 1\r\nx\r\n"},
	{&TextRequest{Verb: TextCAS, Keys: Words("k"), CAS: 1<<64 - 1, Value: []byte("x")}, "cas k 0 0 1 18446744073709551615\r\nx\r\n"},
	{&TextRequest{Verb: TextDelete, Keys: Words("k")}, "delete k\r\n"},
	{&TextRequest{Verb: TextIncr, Keys: Words("k"), Delta: 7}, "incr k 7\r\n"},
	{&TextRequest{Verb: TextDecr, Keys: Words("k"), Delta: 0, NoReply: true}, "decr k 0 noreply\r\n"},
	{&TextRequest{Verb: TextTouch, Keys: Words("k"), Exptime: 300}, "touch k 300\r\n"},
	{&TextRequest{Verb: TextFlushAll}, "flush_all\r\n"},
	{&TextRequest{Verb: TextFlushAll, Exptime: 10, NoReply: true}, "flush_all 10 noreply\r\n"},
	{&TextRequest{Verb: TextVerbosity, Args: Words("1 noreply")}, "verbosity 1 noreply\r\n"},
	{&TextRequest{Verb: TextStats, Args: Words("detail on")}, "stats detail on\r\n"},
	{&TextRequest{Verb: TextVersion}, "version\r\n"},
	{&TextRequest{Verb: TextQuit}, "quit\r\n"},
	{&TextRequest{Name: []byte("lru_crawler"), Args: Words("metadump all")}, "lru_crawler metadump all\r\n"},

	{&TextResponse{Kind: TextValue, Key: []byte("k"), Flags: 3, Value: []byte("a\r\nb")}, "VALUE k 3 4\r\na\r\nb\r\n"},
	{&TextResponse{Kind: TextValue, Key: []byte("k"), Value: []byte{}, CAS: 0, HasCAS: true}, "VALUE k 0 0 0\r\n\r\n"},
	{&TextResponse{Kind: TextStat, Text: []byte("pid 17")}, "STAT pid 17\r\n"},
	{&TextResponse{Kind: TextEnd}, "END\r\n"},
	{&TextResponse{Kind: TextStored}, "STORED\r\n"},
	{&TextResponse{Kind: TextNotStored}, "NOT_STORED\r\n"},
	{&TextResponse{Kind: TextExists}, "EXISTS\r\n"},
	{&TextResponse{Kind: TextNotFound}, "NOT_FOUND\r\n"},
	{&TextResponse{Kind: TextDeleted}, "DELETED\r\n"},
	{&TextResponse{Kind: TextTouched}, "TOUCHED\r\n"},
	{&TextResponse{Kind: TextOK}, "OK\r\n"},
	{&TextResponse{Kind: TextReset}, "RESET\r\n"},
	{&TextResponse{Kind: TextVersionIs, Text: []byte("1.6.45")}, "VERSION 1.6.45\r\n"},
	{&TextResponse{Kind: TextNumber, Number: 1<<64 - 1}, "18446744073709551615\r\n"},
	{&TextResponse{Kind: TextError}, "ERROR\r\n"},
	{&TextResponse{Kind: TextClientError, Text: []byte("line too long")}, "CLIENT_ERROR line too long\r\n"},
	{&TextResponse{Kind: TextLine, Text: []byte("BUSY currently processing crawler request")}, "BUSY currently processing crawler request\r\n"},
}

func TestMessagesAreTheBytesOfTheProtocol(t *testing.T) {
	for _, c := range goldenText {
		if got := c.message.AppendTo([]byte("before")); string(got) != "before"+c.bytes {
			t.Errorf("%+v: %q, not %q", c.message, got, c.bytes)
		}
		parsed := reflect.New(reflect.TypeOf(c.message).Elem()).Interface().(codec)
		n, err := parsed.Parse([]byte(c.bytes + "next"))
		if err != nil || n != len(c.bytes) {
			t.Errorf("%q: %d, %v", c.bytes, n, err)
		}
		if again := parsed.AppendTo(nil); string(again) != c.bytes {
			t.Errorf("%q was read as %+v", c.bytes, parsed)
		}
	}
}

func TestABeginningOfAMessageIsShort(t *testing.T) {
	for _, c := range goldenText {
		for cut := range len(c.bytes) {
			parsed := reflect.New(reflect.TypeOf(c.message).Elem()).Interface().(codec)
			n, err := parsed.Parse([]byte(c.bytes[:cut]))
			if err != ErrShort || n != 0 && n != len(c.bytes) {
				t.Errorf("%q of %q: %d, %v", c.bytes[:cut], c.bytes, n, err)
			}
		}
	}
}

func TestWhatIsNoRequestIsAnsweredAndSkipped(t *testing.T) {
	for _, c := range []struct{ bytes, reply, next string }{
		{"\r\nmn\r\n", "ERROR", "mn\r\n"},
		{"mz k\r\n", "", ""}, // a command of the text protocol that nobody knows
		{"mg\r\n", badFormat, ""},
		{"mg " + strings.Repeat("k", 251) + "\r\n", badFormat, ""},
		{"mg k v v\r\nmn\r\n", duplicateFlag, "mn\r\n"},
		{"mg k 1\r\n", badFlag, ""},
		{"mg k \x01\r\n", badFormat, ""},
		{"mg k O" + strings.Repeat("o", 32) + "\r\n", longOpaque, ""},
		{"ms k x\r\nmn\r\n", badFormat, "mn\r\n"},
		{"ms k -1\r\nmn\r\n", badFormat, "mn\r\n"},
		{"ms k 2 S S\r\nab\r\nmn\r\n", duplicateFlag, "mn\r\n"},
		{"ms k 2\r\nabcd\r\n", badChunk, "\r\n"},
		{"set k 0 0 -1\r\nabc\r\n", badFormat, "abc\r\n"},
		{"set k 0 0 99999999999999\r\n", badFormat, ""},
		{"set k 0 0 18446744073709551614\r\n", badFormat, ""},
		{"append k 0 0 -1\r\n", badFormat, ""},
		{"cas k 0 0 3\r\nabc\r\nget a\r\n", badFormat, "get a\r\n"},
		{"set k x 0 3\r\nabc\r\nget a\r\n", badFormat, "get a\r\n"},
		{"set " + strings.Repeat("k", 251) + " 0 0 3\r\nabc\r\nget a\r\n", badFormat, "get a\r\n"},
		{"set k 0 0 3\r\nabcde\r\nget a\r\n", badChunk, "\r\nget a\r\n"},
		{"get\r\n", badFormat, ""},
		{"get a " + strings.Repeat("k", 251) + "\r\n", badFormat, ""},
		{"gat x k\r\n", badExptime, ""},
		{"incr k\r\n", badDelta, ""},
		{"incr k -1\r\n", badDelta, ""},
		{"touch k soon\r\n", badExptime, ""},
		{"flush_all soon\r\n", badExptime, ""},
		{"delete\r\n", badFormat, ""},
	} {
		var r Request
		n, err := r.Parse([]byte(c.bytes))
		var wrong *SyntaxError
		if c.reply == "" && err == nil {
			continue
		}
		if !errors.As(err, &wrong) || wrong.Reply != c.reply || c.bytes[n:] != c.next {
			t.Errorf("%q: next %q, %v (%q), not %q", c.bytes, c.bytes[n:], err, wrong.Reply, c.reply)
		}
	}
}

func TestLinesHaveAnEnd(t *testing.T) {
	endless := bytes.Repeat([]byte("get a "), MaxLineBytes/6+1)
	for _, m := range []codec{&Request{}, &MetaRequest{}, &MetaResponse{}, &TextRequest{}, &TextResponse{}} {
		var wrong *SyntaxError
		if n, err := m.Parse(endless); n != 0 || !errors.As(err, &wrong) {
			t.Errorf("%T: %d, %v", m, n, err)
		}
	}
}

func TestWhatIsNoResponseEndsTheConnection(t *testing.T) {
	for _, c := range []struct {
		message Parser
		bytes   string
	}{
		{&MetaResponse{}, "HTTP/1.1 400 Bad Request\r\n"},
		{&MetaResponse{}, "\r\n"},
		{&MetaResponse{}, "VA x\r\n"},
		{&MetaResponse{}, "VA 99999999999\r\n"},
		{&MetaResponse{}, "VA 1\r\nabc"},
		{&TextResponse{}, "VALUE k 0\r\n"},
		{&TextResponse{}, "VALUE k 0 -1\r\n"},
		{&TextResponse{}, "VALUE k 0 1 x\r\na\r\n"},
		{&TextResponse{}, "VALUE k 0 1\r\nabc"},
		{&BinaryResponse{}, "\x80"},
		{&BinaryResponse{}, "\x81\x00\x00\x01" + strings.Repeat("\x00", 20)},
		{&BinaryResponse{}, "\x81\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff" + strings.Repeat("\x00", 12)},
		{&BinaryRequest{}, "\x80\x00\x00\x01" + strings.Repeat("\x00", 20)},
		{&BinaryRequest{}, "\x80\x01\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff" + strings.Repeat("\x00", 12)},
	} {
		var wrong *SyntaxError
		if n, err := c.message.Parse([]byte(c.bytes)); n != 0 || !errors.As(err, &wrong) {
			t.Errorf("%T %q: %d, %v", c.message, c.bytes, n, err)
		}
	}
}

func TestFlagsAreFoundAndBuilt(t *testing.T) {
	built := MetaFlags(nil).Add(FlagValue).AddInt(FlagSetTTL, -1).AddUint(FlagCompare, 1<<64-1).AddToken(FlagOpaque, []byte("x1"))
	if string(built) != "v T-1 C18446744073709551615 Ox1" {
		t.Fatalf("%q", built)
	}
	cas, ok := built.Uint(FlagCompare)
	ttl, ttlOK := built.Int(FlagSetTTL)
	opaque, opaqueOK := built.Token(FlagOpaque)
	if !ok || cas != 1<<64-1 || !ttlOK || ttl != -1 || !opaqueOK || string(opaque) != "x1" || !built.Has('v') || built.Has('x') {
		t.Errorf("%d %d %q", cas, ttl, opaque)
	}
	var letters []byte
	for letter := range MetaFlags("  v   T60 ").All() {
		letters = append(letters, letter)
	}
	if string(letters) != "vT" {
		t.Errorf("%q", letters)
	}
}

func TestKeysOfMetaCanBeAnyBytes(t *testing.T) {
	if NeedsBase64("plain-ü") || !NeedsBase64("a b") || !NeedsBase64([]byte{0}) || !NeedsBase64("\x7f") {
		t.Error("which keys need base64")
	}
	r := MetaRequest{Verb: MetaGet, Key: []byte("YSBi"), Flags: flags("v b")}
	if key, err := r.DecodeKey(nil); string(key) != "a b" || err != nil {
		t.Errorf("%q, %v", key, err)
	}
	r.Key = []byte("YSB")
	var wrong *SyntaxError
	if _, err := r.DecodeKey(nil); !errors.As(err, &wrong) || wrong.Reply != "CLIENT_ERROR error decoding key" {
		t.Error(err)
	}
}

func TestAReaderTakesAnyCuts(t *testing.T) {
	var stream []byte
	var want []string
	for _, c := range goldenText {
		switch c.message.(type) {
		case *MetaRequest, *TextRequest:
			stream, want = append(stream, c.bytes...), append(want, c.bytes)
		}
	}
	large := string((&MetaRequest{Verb: MetaSet, Key: []byte("l"), Value: bytes.Repeat([]byte("v"), 3<<20)}).AppendTo(nil))
	stream, want = append(stream, large...), append(want, large)
	for name, source := range map[string]io.Reader{
		"whole": bytes.NewReader(stream), "halves": iotest.HalfReader(bytes.NewReader(stream)),
		"with the end": iotest.DataErrReader(bytes.NewReader(stream)),
	} {
		r, m := NewReader(source, 0), new(Request)
		for _, w := range want {
			if err := r.Read(m); err != nil || string(m.AppendTo(nil)) != w {
				t.Fatalf("%s: %v at %.40q", name, err, w)
			}
		}
		if err := r.Read(m); err != io.EOF {
			t.Errorf("%s: %v in the end", name, err)
		}
	}
}

func TestAReaderSkipsWhatIsTooLarge(t *testing.T) {
	r := NewReader(iotest.OneByteReader(strings.NewReader("ms k 2000\r\n"+strings.Repeat("x", 2000)+"\r\nmn\r\nms k 10\r\nabc")), 1000)
	m := new(Request)
	var large *TooLargeError
	if err := r.Read(m); !errors.As(err, &large) || large.LimitBytes != 1000 {
		t.Fatal(err)
	}
	if err := r.Read(m); err != nil || m.Meta.Verb != MetaNoOp {
		t.Fatal(err)
	}
	if err := r.Read(m); err != io.ErrUnexpectedEOF {
		t.Fatal(err)
	}
}

func TestAReaderBelievesOnlyWhatHasCome(t *testing.T) {
	r := NewReader(strings.NewReader("VA 100000000\r\nabc"), 0)
	if err := r.Read(new(MetaResponse)); err != io.ErrUnexpectedEOF {
		t.Fatal(err)
	}
	if len(r.buf) > 2*growBytes {
		t.Errorf("%d bytes for 17", len(r.buf))
	}
}

func TestAWriterSendsLargeValuesFromWhereTheyLie(t *testing.T) {
	var sent bytes.Buffer
	w := NewWriter(&sent)
	value := bytes.Repeat([]byte("v"), noCopyBytes)
	request := MetaRequest{Verb: MetaSet, Key: []byte("k")}
	w.SetBuffer(request.AppendHeadTo(w.Buffer(), len(value)))
	w.Value(value, "\r\n")
	w.SetBuffer((&MetaRequest{Verb: MetaNoOp}).AppendTo(w.Buffer()))
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if sent.String() != "ms k 16384\r\n"+string(value)+"\r\nmn\r\n" {
		t.Errorf("%.40q, %d bytes", sent.String(), sent.Len())
	}
}

func TestALargeValueIsTheCallersWithoutACopy(t *testing.T) {
	stream := (&MetaResponse{Status: MetaValue, Value: bytes.Repeat([]byte("l"), 500_000)}).AppendTo(nil)
	stream = (&MetaResponse{Status: MetaValue, Value: []byte("small")}).AppendTo(stream)
	r, m := NewReader(iotest.HalfReader(bytes.NewReader(stream[:len("VA 500000\r\n")+500_000+len("\r\n")])), 0), new(MetaResponse)
	if err := r.Read(m); err != nil {
		t.Fatal(err)
	}
	taken := r.Take(m.Value)
	if &taken[0] != &m.Value[0] || r.buf != nil {
		t.Error("it was copied, or its buffer is kept")
	}
	r = NewReader(bytes.NewReader(stream), 0)
	for _, want := range []byte("ls") {
		if err := r.Read(m); err != nil {
			t.Fatal(err)
		}
		taken = r.Take(m.Value)
		if &taken[0] == &m.Value[0] && len(r.buf) > 0 || taken[0] != want {
			t.Error("what lies in the buffer is the reader's")
		}
	}
}
