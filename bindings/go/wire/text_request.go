package wire

import (
	"bytes"
	"slices"
	"strconv"
)

// TextVerb is a command of the text protocol.
type TextVerb uint8

// The client commands. All others are TextOther.
const (
	TextOther TextVerb = iota
	TextGet
	TextGets
	TextGat
	TextGats
	TextSet
	TextAdd
	TextReplace
	TextAppend
	TextPrepend
	TextCAS
	TextDelete
	TextIncr
	TextDecr
	TextTouch
	TextFlushAll
	TextVerbosity
	TextStats
	TextVersion
	TextQuit
)

var textVerbs = [...]string{
	TextOther: "", TextGet: "get", TextGets: "gets", TextGat: "gat", TextGats: "gats", TextSet: "set", TextAdd: "add",
	TextReplace: "replace", TextAppend: "append", TextPrepend: "prepend", TextCAS: "cas", TextDelete: "delete",
	TextIncr: "incr", TextDecr: "decr", TextTouch: "touch", TextFlushAll: "flush_all", TextVerbosity: "verbosity",
	TextStats: "stats", TextVersion: "version", TextQuit: "quit",
}

// String returns the word on the line; "" for TextOther.
func (v TextVerb) String() string {
	if int(v) < len(textVerbs) {
		return textVerbs[v]
	}
	return ""
}

func textVerb(word []byte) TextVerb {
	for verb := TextGet; verb <= TextQuit; verb++ {
		if string(word) == textVerbs[verb] {
			return verb
		}
	}
	return TextOther
}

// Stores reports whether a value follows the line.
func (v TextVerb) Stores() bool { return v >= TextSet && v <= TextCAS }

// Gets reports whether the command requests values, of any number of keys.
func (v TextVerb) Gets() bool { return v >= TextGet && v <= TextGats }

// TextRequest is a command of the text protocol.
type TextRequest struct {
	Verb TextVerb
	// Name is the command if Verb is TextOther.
	Name []byte
	// Keys are the keys of get, gets, gat and gats; other commands have one.
	Keys Words
	// Flags, Value and CAS belong to storage commands.
	Flags uint32
	Value []byte
	CAS   uint64
	// Exptime is 0 for never, seconds from now up to 30 days, a Unix time above, and negative for
	// at once. For flush_all it is the delay.
	Exptime int32
	// Delta is the number that incr adds and decr subtracts.
	Delta uint64
	// Args are the arguments of stats, verbosity, version, quit and TextOther.
	Args Words
	// NoReply suppresses the response. For TextOther the word remains in Args.
	NoReply bool
}

// AppendTo appends the request.
func (r *TextRequest) AppendTo(dst []byte) []byte {
	dst = slices.Grow(dst, len(r.Name)+len(r.Keys)+len(r.Value)+len(r.Args)+96)
	dst = r.AppendHeadTo(dst, len(r.Value))
	if r.Verb.Stores() {
		dst = append(dst, r.Value...)
		dst = append(dst, "\r\n"...)
	}
	return dst
}

// AppendHeadTo appends only the line, for a caller that sends a value of valueBytes and "\r\n"
// separately.
func (r *TextRequest) AppendHeadTo(dst []byte, valueBytes int) []byte {
	dst = append(dst, r.Verb.String()...)
	switch r.Verb {
	case TextOther:
		dst = appendWords(append(dst, r.Name...), r.Args)
	case TextGet, TextGets, TextDelete:
		dst = appendWords(dst, r.Keys)
	case TextGat, TextGats:
		dst = appendWords(appendInt(dst, int64(r.Exptime)), r.Keys)
	case TextIncr, TextDecr:
		dst = appendUint(appendWords(dst, r.Keys), r.Delta)
	case TextTouch:
		dst = appendInt(appendWords(dst, r.Keys), int64(r.Exptime))
	case TextFlushAll:
		if r.Exptime != 0 {
			dst = appendInt(dst, int64(r.Exptime))
		}
	case TextVerbosity, TextStats, TextVersion, TextQuit:
		dst = appendWords(dst, r.Args)
	default:
		dst = appendUint(appendWords(dst, r.Keys), uint64(r.Flags))
		dst = appendUint(appendInt(dst, int64(r.Exptime)), uint64(valueBytes))
		if r.Verb == TextCAS {
			dst = appendUint(dst, r.CAS)
		}
	}
	if r.NoReply {
		dst = append(dst, " noreply"...)
	}
	return append(dst, "\r\n"...)
}

// Parse parses a request at the start of b, as described for the package. An unknown command is
// TextOther; the server has to reject it.
func (r *TextRequest) Parse(b []byte) (int, error) {
	line, head, err := cutLine(b)
	if err != nil {
		return 0, err
	}
	word, rest := nextWord(line)
	*r = TextRequest{Verb: textVerb(word)}
	switch {
	case len(word) == 0 || word[0] == MagicRequest:
		// Encoded without the leading spaces, it would begin a binary command.
		return head, syntax("a command", line, "ERROR")
	case r.Verb == TextOther:
		r.Name, r.Args = word, trim(rest)
		return head, nil
	case r.Verb.Stores():
		return r.parseStore(b, head, rest)
	case r.Verb.Gets():
		return head, r.parseGet(rest)
	}
	return head, r.parseRest(rest)
}

func (r *TextRequest) parseGet(rest []byte) error {
	if r.Verb == TextGat || r.Verb == TextGats {
		var err error
		if rest, err = r.takeExptime(rest); err != nil {
			return err
		}
	}
	r.Keys = trim(rest)
	if len(r.Keys) == 0 {
		return syntax("a key", nil, badFormat)
	}
	for word, rest := nextWord(r.Keys); len(word) > 0; word, rest = nextWord(rest) {
		if !isKey(word) {
			return syntax("keys of 1 to 250 bytes", word, badFormat)
		}
	}
	return nil
}

// parseStore parses the rest after the command. If the length is valid, it skips the value of an
// invalid command.
func (r *TextRequest) parseStore(b []byte, head int, rest []byte) (int, error) {
	key, rest := nextWord(rest)
	flags, rest := nextWord(rest)
	exptime, rest := nextWord(rest)
	size, rest := nextWord(rest)
	length, ok := parseLength(size)
	if !ok {
		return head, syntax("the length of the value", size, badFormat)
	}
	n, fits := messageBytes(head, length)
	if !fits {
		return 0, tooLong(size, tooLarge)
	}
	flagBits, flagsOK := ParseUint(flags)
	seconds, exptimeOK := parseInt(exptime)
	casOK := true
	if r.Verb == TextCAS {
		var cas []byte
		cas, rest = nextWord(rest)
		r.CAS, casOK = ParseUint(cas)
	}
	r.Keys, r.Flags, r.Exptime = Words(key), uint32(flagBits), int32(seconds)
	r.NoReply = endsInNoReply(rest)
	if !isKey(key) || !flagsOK || !exptimeOK || !casOK {
		return n, syntax("key, flags, exptime and length", b[:head], badFormat)
	}
	var err error
	r.Value, err = cutValue(b, head, n, badChunk)
	return n, err
}

func (r *TextRequest) parseRest(rest []byte) error {
	switch r.Verb {
	case TextVerbosity, TextStats, TextVersion, TextQuit:
		r.Args = trim(rest)
		return nil
	case TextFlushAll:
		r.NoReply = endsInNoReply(rest)
		if word, _ := nextWord(rest); len(word) > 0 && string(word) != "noreply" {
			_, err := r.takeExptime(rest)
			return err
		}
		return nil
	}
	var key []byte
	key, rest = nextWord(rest)
	r.Keys, r.NoReply = Words(key), endsInNoReply(rest)
	if !isKey(key) {
		return syntax("a key of 1 to 250 bytes", key, badFormat)
	}
	switch r.Verb {
	case TextIncr, TextDecr:
		word, _ := nextWord(rest)
		var ok bool
		if r.Delta, ok = ParseUint(word); !ok {
			return syntax("a number to add or subtract", word, badDelta)
		}
	case TextTouch:
		_, err := r.takeExptime(rest)
		return err
	}
	return nil
}

func (r *TextRequest) takeExptime(rest []byte) ([]byte, error) {
	word, rest := nextWord(rest)
	v, ok := parseInt(word)
	if !ok {
		return rest, syntax("a time to live in seconds", word, badExptime)
	}
	r.Exptime = int32(v)
	return rest, nil
}

// endsInNoReply reports whether the last word of a line is noreply.
func endsInNoReply(rest []byte) bool {
	rest = trim(rest)
	return string(rest[bytes.LastIndexByte(rest, ' ')+1:]) == "noreply"
}

func appendWords(dst []byte, words Words) []byte {
	if len(words) == 0 {
		return dst
	}
	return append(append(dst, ' '), words...)
}

func appendUint(dst []byte, v uint64) []byte {
	return strconv.AppendUint(append(dst, ' '), v, 10)
}

func appendInt(dst []byte, v int64) []byte {
	return strconv.AppendInt(append(dst, ' '), v, 10)
}
