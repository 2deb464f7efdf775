package wire

import (
	"slices"
	"strconv"

	"larder.example/larder/internal/grammar"
)

// TextKind is the kind of a response line of the text protocol.
type TextKind uint8

// The kinds. TextLine is a line that begins with another word, as in responses to some operator
// commands.
const (
	TextLine        TextKind = iota
	TextValue                // VALUE key flags bytes, and the value; more follow until TextEnd
	TextStat                 // STAT name value; more follow until TextEnd
	TextEnd                  // END
	TextStored               // STORED
	TextNotStored            // NOT_STORED
	TextExists               // EXISTS
	TextNotFound             // NOT_FOUND
	TextDeleted              // DELETED
	TextTouched              // TOUCHED
	TextOK                   // OK
	TextReset                // RESET
	TextVersionIs            // VERSION
	TextNumber               // the response to incr and decr
	TextError                // ERROR: unknown command
	TextClientError          // CLIENT_ERROR
	TextServerError          // SERVER_ERROR
)

var textKinds = [...]string{
	TextLine: "", TextValue: "VALUE", TextStat: "STAT", TextEnd: "END", TextStored: "STORED", TextNotStored: "NOT_STORED",
	TextExists: "EXISTS", TextNotFound: "NOT_FOUND", TextDeleted: "DELETED", TextTouched: "TOUCHED", TextOK: "OK",
	TextReset: "RESET", TextVersionIs: "VERSION", TextNumber: "", TextError: "ERROR", TextClientError: "CLIENT_ERROR",
	TextServerError: "SERVER_ERROR",
}

// String returns the first word of the line; "" for TextLine and TextNumber.
func (k TextKind) String() string {
	if int(k) < len(textKinds) {
		return textKinds[k]
	}
	return ""
}

func textKind(word []byte) TextKind {
	for kind := TextValue; kind <= TextServerError; kind++ {
		if len(word) > 0 && string(word) == textKinds[kind] {
			return kind
		}
	}
	return TextLine
}

// TextResponse is a line of a response of the text protocol, with its value.
type TextResponse struct {
	Kind TextKind
	// Key, Value, Flags and CAS belong to TextValue. HasCAS is true if the line contains a CAS
	// token.
	Key    []byte
	Value  []byte
	Flags  uint64
	CAS    uint64
	HasCAS bool
	// Number belongs to TextNumber.
	Number uint64
	// Text is the rest of the line: name and value of TextStat, the message of an error, and the
	// complete line of TextLine.
	Text []byte
}

// Stat returns the name and the value of a TextStat.
func (r *TextResponse) Stat() (name, value []byte) {
	name, rest := grammar.CutWord(r.Text)
	return name, grammar.Trim(rest)
}

// AppendTo appends the response.
func (r *TextResponse) AppendTo(dst []byte) []byte {
	dst = slices.Grow(dst, len(r.Key)+len(r.Value)+len(r.Text)+96)
	dst = append(dst, r.Kind.String()...)
	switch r.Kind {
	case TextNumber:
		dst = strconv.AppendUint(dst, r.Number, 10)
	case TextLine:
		dst = append(dst, r.Text...)
	case TextValue:
		dst = appendUint(appendWords(dst, r.Key), r.Flags)
		dst = appendUint(dst, uint64(len(r.Value)))
		if r.HasCAS {
			dst = appendUint(dst, r.CAS)
		}
		dst = append(dst, "\r\n"...)
		dst = append(dst, r.Value...)
	default:
		dst = appendWords(dst, r.Text)
	}
	return append(dst, "\r\n"...)
}

// Parse parses a line and its value at the start of b, as described for the package.
func (r *TextResponse) Parse(b []byte) (int, error) {
	line, head, err := cutResponse(b)
	if err != nil {
		return 0, err
	}
	word, rest := grammar.CutWord(line)
	*r = TextResponse{Kind: textKind(word)}
	switch r.Kind {
	case TextValue:
		return r.parseValue(b, line, head, rest)
	case TextLine:
		var ok bool
		// decr pads a number that has become shorter with spaces.
		if r.Number, ok = ParseUint(word); ok && len(grammar.Trim(rest)) == 0 {
			r.Kind = TextNumber
		} else {
			r.Number, r.Text = 0, line
		}
	default:
		r.Text = grammar.Trim(rest)
	}
	return head, nil
}

func (r *TextResponse) parseValue(b, line []byte, head int, rest []byte) (int, error) {
	var flags, size, cas []byte
	r.Key, rest = grammar.CutWord(rest)
	flags, rest = grammar.CutWord(rest)
	size, rest = grammar.CutWord(rest)
	cas, _ = grammar.CutWord(rest)
	var flagsOK bool
	r.Flags, flagsOK = ParseUint(flags)
	length, lengthOK := grammar.ParseLength(size)
	casOK := true
	if len(cas) > 0 {
		r.CAS, casOK = ParseUint(cas)
		r.HasCAS = true
	}
	if !flagsOK || !lengthOK || !casOK || !grammar.IsKey(r.Key) {
		return 0, syntax("VALUE with key, flags, length and an optional CAS token", line, "")
	}
	n, fits := valueMessageBytes(head, length)
	if !fits {
		return 0, tooLong(size, "")
	}
	var err error
	r.Value, err = cutValue(b, head, n, "")
	if err != nil && err != ErrShort {
		n = 0
	}
	return n, err
}
