package wire

import (
	"encoding/base64"
	"slices"
	"strconv"

	"larder.example/larder/internal/grammar"
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

// MetaRequest is a meta command.
type MetaRequest struct {
	Verb MetaVerb
	// Key is the key in the format of the line: in base64 if Flags contain FlagBase64. mn has no key.
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

// cutMeta returns the part of a line of head bytes that begins with the letter of its meta command,
// if the line is a meta command.
func cutMeta(line []byte, head int) (rest []byte, isMeta bool) {
	if len(line) == 0 || line[0] != 'm' {
		return nil, false
	}
	command, _, reply := grammar.CutCommand(line, head)
	if _, isMeta = grammar.CutMeta(command); !isMeta || reply != "" {
		return nil, false
	}
	return line[1:], true
}

// Parse parses a meta command at the start of b, as described for the package.
func (r *MetaRequest) Parse(b []byte) (int, error) {
	line, head, err := cutRequest(b)
	if err != nil {
		return 0, err
	}
	rest, isMeta := cutMeta(line, head)
	if !isMeta {
		return head, refusal("mg, ms, md, ma, mn or me", line, grammar.Unknown)
	}
	return r.parseLine(b, rest, head)
}

// parseLine parses a line that begins with the letter of the command.
func (r *MetaRequest) parseLine(b, line []byte, head int) (int, error) {
	*r = MetaRequest{Verb: MetaVerb(line[0])}
	if r.Verb == MetaNoOp {
		return head, nil
	}
	var rest []byte
	r.Key, rest = grammar.CutWord(line[1:])
	if r.Verb == MetaSet {
		return r.parseSet(b, head, rest)
	}
	return head, r.takeFlags(rest)
}

// parseSet parses the rest after the key. If the length is valid, it skips the value of an invalid
// command.
func (r *MetaRequest) parseSet(b []byte, head int, rest []byte) (int, error) {
	word, rest := grammar.CutWord(rest)
	length, ok := grammar.ParseLength(word)
	if !ok {
		return head, refusal("the length of the value", word, grammar.BadFormat)
	}
	n, fits := valueMessageBytes(head, length)
	if !fits {
		return 0, tooLong(word, grammar.TooLarge)
	}
	err := r.takeFlags(rest)
	if err == nil {
		r.Value, err = cutValue(b, head, n, grammar.BadChunk)
	}
	return n, err
}

func (r *MetaRequest) takeFlags(rest []byte) error {
	meta := grammar.Meta{Verb: byte(r.Verb), Key: r.Key}
	r.Flags = grammar.Trim(rest)
	if _, reply := meta.Parse(rest, nil); reply != "" {
		return refusal("a key of 1 to 250 bytes and valid flags, each once", rest, reply)
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
		return dst, refusal("a key in base64", r.Key, grammar.BadKeyCode)
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
