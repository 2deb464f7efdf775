package wire

import (
	"encoding/base64"
	"slices"
	"strconv"
)

// MetaVerb is the second letter of a meta command.
type MetaVerb byte

// The meta commands.
const (
	MetaGet        MetaVerb = 'g'
	MetaSet        MetaVerb = 's'
	MetaDelete     MetaVerb = 'd'
	MetaArithmetic MetaVerb = 'a'
	MetaNoOp       MetaVerb = 'n'
	MetaDebug      MetaVerb = 'e'
)

// String returns the word on the line: mg, ms, md, ma, mn or me.
func (v MetaVerb) String() string { return "m" + string(rune(v)) }

func (v MetaVerb) known() bool {
	switch v {
	case MetaGet, MetaSet, MetaDelete, MetaArithmetic, MetaNoOp, MetaDebug:
		return true
	}
	return false
}

// MetaRequest is a meta command.
type MetaRequest struct {
	Verb MetaVerb
	// Key is the key as on the line: in base64 if Flags contain FlagBase64. mn has no key.
	Key   []byte
	Flags MetaFlags
	// Value is the value that ms stores.
	Value []byte
}

// AppendTo appends the request.
func (r *MetaRequest) AppendTo(dst []byte) []byte {
	dst = slices.Grow(dst, len(r.Key)+len(r.Flags)+len(r.Value)+32)
	dst = r.AppendHeadTo(dst, len(r.Value))
	if r.Verb == MetaSet {
		dst = append(dst, r.Value...)
		dst = append(dst, "\r\n"...)
	}
	return dst
}

// AppendHeadTo appends only the line, for a caller that sends a value of valueBytes and "\r\n"
// separately.
func (r *MetaRequest) AppendHeadTo(dst []byte, valueBytes int) []byte {
	dst = append(dst, 'm', byte(r.Verb))
	if r.Verb != MetaNoOp {
		dst = append(dst, ' ')
		dst = append(dst, r.Key...)
	}
	if r.Verb == MetaSet {
		dst = append(dst, ' ')
		dst = strconv.AppendUint(dst, uint64(valueBytes), 10)
	}
	dst = appendFlags(dst, r.Flags)
	return append(dst, "\r\n"...)
}

// isMeta reports whether a line is a meta command. Text commands that begin with an m are longer.
func isMeta(line []byte) bool {
	return len(line) >= 2 && line[0] == 'm' && MetaVerb(line[1]).known() && (len(line) == 2 || line[2] == ' ')
}

// Parse parses a meta command at the start of b, as described for the package.
func (r *MetaRequest) Parse(b []byte) (int, error) {
	line, head, err := cutLine(b)
	if err != nil {
		return 0, err
	}
	if !isMeta(line) {
		return head, syntax("mg, ms, md, ma, mn or me", line, "ERROR")
	}
	*r = MetaRequest{Verb: MetaVerb(line[1])}
	rest := line[2:]
	if r.Verb == MetaNoOp {
		return head, nil
	}
	r.Key, rest = nextWord(rest)
	if r.Verb == MetaSet {
		return r.parseSet(b, head, rest)
	}
	return head, r.takeFlags(rest)
}

// parseSet parses the rest after the key. If the length is valid, it skips the value of an invalid
// command.
func (r *MetaRequest) parseSet(b []byte, head int, rest []byte) (int, error) {
	word, rest := nextWord(rest)
	length, ok := parseLength(word)
	if !ok {
		return head, syntax("the length of the value", word, badFormat)
	}
	n, fits := messageBytes(head, length)
	if !fits {
		return 0, tooLong(word, tooLarge)
	}
	err := r.takeFlags(rest)
	if err == nil {
		r.Value, err = cutValue(b, head, n, badChunk)
	}
	return n, err
}

func (r *MetaRequest) takeFlags(rest []byte) error {
	if !isKey(r.Key) {
		return syntax("a key of 1 to 250 bytes", r.Key, badFormat)
	}
	r.Flags = MetaFlags(trim(rest))
	if reply := r.Flags.check(); reply != "" {
		return syntax("flags, each once", rest, reply)
	}
	return nil
}

// DecodeKey appends the key to dst, decoded if it is in base64.
func (r *MetaRequest) DecodeKey(dst []byte) ([]byte, error) {
	if !r.Flags.Has(FlagBase64) {
		return append(dst, r.Key...), nil
	}
	dst, err := base64.StdEncoding.AppendDecode(dst, r.Key)
	if err != nil {
		return dst, syntax("a key in base64", r.Key, "CLIENT_ERROR error decoding key")
	}
	return dst, nil
}

// NeedsBase64 reports whether a key requires base64 because it contains spaces or control
// characters.
func NeedsBase64[K string | []byte](key K) bool {
	for i := 0; i < len(key); i++ {
		if key[i] <= ' ' || key[i] == 0x7f {
			return true
		}
	}
	return false
}

func trim(b []byte) []byte {
	for len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	for len(b) > 0 && b[len(b)-1] == ' ' {
		b = b[:len(b)-1]
	}
	return b
}
