package wire

import (
	"bytes"
	"slices"
	"strconv"

	"larder.example/larder/internal/grammar"
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
	// Keys are the keys of the command. Only the commands from TextGet to TextGats can have several.
	Keys Words
	// Flags, Value and CAS belong to storage commands.
	Flags uint32
	Value []byte
	CAS   uint64
	// Exptime is 0 if the item never expires, and negative if it expires immediately. Up to 30 days
	// it is a number of seconds from now, and above that a Unix time. For flush_all it is the delay.
	Exptime int32
	// Delta is the number that incr adds and decr subtracts.
	Delta uint64
	// Args are the arguments of stats, verbosity, version, quit and TextOther.
	Args Words
	// NoReply suppresses the response. For TextOther the word remains in Args, where [Writer.Unknown]
	// looks for it.
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
		if len(r.Name) == 1 && len(r.Args) == 0 && !r.NoReply {
			// A line of three bytes is not a command.
			dst = append(dst, ' ')
		}
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
// TextOther; the server must reject it.
func (r *TextRequest) Parse(b []byte) (int, error) {
	line, head, err := cutRequest(b)
	if err != nil {
		return 0, err
	}
	return r.parseLine(b, line, head)
}

func (r *TextRequest) parseLine(b, line []byte, head int) (int, error) {
	word, rest, reply := grammar.CutCommand(line, head)
	*r = TextRequest{Verb: textVerb(word)}
	switch {
	case reply == grammar.BadFormat:
		return head, refusal("a command", line, reply)
	case r.Verb == TextOther:
		return r.parseOther(word, rest, head, reply)
	case r.Verb.Stores():
		return r.parseStore(b, head, rest)
	case r.Verb.Gets():
		return head, r.parseGet(rest)
	}
	return head, r.parseRest(rest)
}

func (r *TextRequest) parseOther(word, rest []byte, head int, reply string) (int, error) {
	words := grammar.UnknownWords(word, rest)
	switch {
	case words.IsHTTP():
		// memcached closes the connection without a response.
		return 0, syntax("a command", rest, "")
	case reply != "":
		r.NoReply = words.IsQuiet()
		return head, refusal("a command", rest, reply)
	}
	r.Name, r.Args = word, grammar.Trim(rest)
	return head, nil
}

func (r *TextRequest) parseGet(rest []byte) (err error) {
	if r.Verb == TextGat || r.Verb == TextGats {
		var reply string
		if r.Exptime, rest, reply = grammar.CutExptime(rest); reply != "" {
			return refusal("a time to live in seconds, and keys", rest, reply)
		}
	}
	if r.Keys = grammar.Trim(rest); len(r.Keys) == 0 {
		return refusal("a key", nil, grammar.BadFormat)
	}
	for key, others, isValid := grammar.CutKey(rest); len(key) > 0; key, others, isValid = grammar.CutKey(others) {
		if !isValid {
			return refusal("keys of 1 to 250 bytes", key, grammar.BadFormat)
		}
	}
	return nil
}

// parseStore parses the rest after the command. If the length is valid, it skips the value of an
// invalid command.
func (r *TextRequest) parseStore(b []byte, head int, rest []byte) (int, error) {
	var line grammar.Store
	reply := line.Parse(rest, r.Verb == TextCAS)
	if !line.HasLength {
		return head, refusal("the length of the value", rest, reply)
	}
	r.Keys, r.Flags, r.Exptime, r.CAS = line.Key, line.Flags, line.Exptime, line.Token
	r.NoReply = line.IsQuiet
	n, fits := valueMessageBytes(head, line.Length)
	switch {
	case !fits:
		return 0, tooLong(rest, grammar.TooLarge)
	case reply != "":
		return n, refusal("key, flags, exptime and length", rest, reply)
	}
	var err error
	r.Value, err = cutValue(b, head, n, grammar.BadChunk)
	return n, err
}

func (r *TextRequest) parseRest(rest []byte) error {
	switch r.Verb {
	case TextStats, TextVersion, TextQuit:
		r.Args = grammar.Trim(rest)
		return nil
	}
	var reply string
	words := grammar.CutWords(rest)
	want := "a key of 1 to 250 bytes"
	switch r.Verb {
	case TextDelete:
		reply = words.CheckDelete()
	case TextIncr, TextDecr:
		want = "a key, and a number to add or subtract"
		r.Delta, reply = words.Delta()
	case TextTouch:
		want = "a key, and a time to live in seconds"
		r.Exptime, reply = words.Touch()
	case TextFlushAll:
		want = "a delay in seconds"
		r.Exptime, reply = words.FlushDelay()
	case TextVerbosity:
		want = "a level"
		_, reply = words.Verbosity()
		r.Args = grammar.Trim(bytes.TrimSuffix(grammar.Trim(rest), []byte(" noreply")))
	}
	r.NoReply = words.IsQuiet()
	if r.Verb != TextFlushAll && r.Verb != TextVerbosity {
		r.Keys = words.First[0]
	}
	if reply != "" {
		return refusal(want, rest, reply)
	}
	return nil
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
