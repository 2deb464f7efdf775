package wire

import (
	"encoding/binary"

	"larder.example/larder/internal/grammar"
)

// Command is a command in any protocol, in the terms of the text protocol.
type Command struct {
	// Verb is one of TextGet, TextGat, TextTouch, the storage commands, TextDelete, TextIncr,
	// TextDecr, TextFlushAll, TextVersion and TextStats. TextGat also sets the expiration.
	Verb TextVerb
	// Key is the key, or the group of TextStats. Key and Value are valid during the call.
	Key, Value []byte
	Flags      uint32
	// Exptime is the Exptime of a [TextRequest].
	Exptime int32
	// CAS is the token to compare with for TextCAS; for other commands it is 0, or a token that the
	// item must have.
	CAS uint64
	// Delta belongs to TextIncr and TextDecr. If Creates is true and the key is absent, the handler
	// stores the number Initial and returns it.
	Delta, Initial uint64
	Creates        bool
}

// Result is the outcome of a [Command] in the terms of the text protocol. The zero value means that
// the command is unknown.
type Result struct {
	// Kind is TextValue with Value, Flags and CAS; TextNumber with Number; TextEnd for a miss of
	// TextGet and TextGat, and the end of Stats; TextNotFound, TextStored, TextNotStored,
	// TextExists, TextDeleted, TextTouched, TextOK; TextVersionIs with Text; TextClientError or
	// TextServerError with Text.
	Kind   TextKind
	Value  []byte
	Flags  uint32
	CAS    uint64
	Number uint64
	Text   string
	// Stats are names and values, alternating.
	Stats []string
}

// CommandHandler is a [Handler] that translates commands of all protocols, and their results. It
// supports the flags of the meta protocol that have an equivalent in the others, and rejects
// requests with other flags.
type CommandHandler func(c *Command) Result

// Answer answers a request in its protocol.
func (h CommandHandler) Answer(w *Writer, r *Request) {
	switch r.Dialect {
	case Text:
		h.answerText(w, &r.Text)
	case Meta:
		h.answerMeta(w, r)
	case Binary:
		h.answerBinary(w, &r.Binary)
	}
}

func (h CommandHandler) answerText(w *Writer, r *TextRequest) {
	c := Command{Verb: r.Verb, Key: r.Keys, Value: r.Value, Flags: r.Flags, Exptime: r.Exptime, CAS: r.CAS, Delta: r.Delta}
	hasCAS := r.Verb == TextGets || r.Verb == TextGats
	switch r.Verb {
	case TextGets:
		c.Verb = TextGet
	case TextGats:
		c.Verb = TextGat
	case TextStats:
		c.Key = r.Args
	}
	if r.Verb.Gets() {
		for c.Key = range r.Keys.All() {
			if v := h(&c); v.Kind == TextValue {
				w.Text(&TextResponse{Kind: TextValue, Key: c.Key, Value: v.Value, Flags: uint64(v.Flags), CAS: v.CAS, HasCAS: hasCAS})
			}
		}
		w.Text(&TextResponse{Kind: TextEnd})
		return
	}
	v := h(&c)
	for i := 1; i < len(v.Stats); i += 2 {
		w.Text(&TextResponse{Kind: TextStat, Text: []byte(v.Stats[i-1] + " " + v.Stats[i])})
	}
	switch {
	case r.NoReply:
	case v.Kind == TextLine:
		w.unknownText(r)
	default:
		w.Text(&TextResponse{Kind: v.Kind, Number: v.Number, Text: []byte(v.Text)})
	}
}

var binaryVerbs = map[Opcode]TextVerb{
	OpGet: TextGet, OpGetK: TextGet, OpGAT: TextGat, OpGATK: TextGat, OpTouch: TextTouch, OpSet: TextSet, OpAdd: TextAdd,
	OpReplace: TextReplace, OpAppend: TextAppend, OpPrepend: TextPrepend, OpDelete: TextDelete, OpIncrement: TextIncr,
	OpDecrement: TextDecr, OpFlush: TextFlushAll, OpVersion: TextVersion, OpStat: TextStats,
}

var binaryStatuses = map[TextKind]BinaryStatus{
	TextLine: StatusUnknownCommand, TextEnd: StatusNotFound, TextNotFound: StatusNotFound, TextNotStored: StatusNotStored,
	TextExists: StatusExists, TextClientError: StatusInvalid, TextServerError: StatusOutOfMemory,
	TextError: StatusUnknownCommand,
}

// command returns false if the extras or the key are invalid.
func (r *BinaryRequest) command() (c Command, ok bool) {
	c = Command{Verb: binaryVerbs[r.Opcode.Loud()], Key: r.Key, Value: r.Value, CAS: r.CAS}
	var exptime uint32
	ok = len(r.Extras) == 0
	switch c.Verb {
	case TextOther, TextVersion, TextStats:
		return c, true
	case TextSet, TextAdd, TextReplace:
		c.Flags, exptime, ok = ParseStoreExtras(r.Extras)
		if c.CAS != 0 {
			c.Verb = TextCAS
		}
	case TextIncr, TextDecr:
		c.Delta, c.Initial, exptime, ok = ParseCountExtras(r.Extras)
		c.Creates = exptime != ExptimeNoCreate
	case TextGat, TextTouch:
		exptime, ok = ParseUint32Extras(r.Extras)
	case TextFlushAll:
		if !ok {
			exptime, ok = ParseUint32Extras(r.Extras)
		}
	}
	c.Exptime = int32(exptime)
	return c, ok && (c.Verb == TextFlushAll || grammar.IsKey(r.Key))
}

func (h CommandHandler) answerBinary(w *Writer, r *BinaryRequest) {
	loud := r.Opcode.Loud()
	response := BinaryResponse{Opcode: r.Opcode, Opaque: r.Opaque}
	if loud == OpNoOp {
		w.Binary(&response)
		return
	}
	c, ok := r.command()
	if !ok {
		w.fail(r, StatusInvalid)
		return
	}
	v := h(&c)
	for i := 1; i < len(v.Stats); i += 2 {
		w.Binary(&BinaryResponse{Opcode: r.Opcode, Opaque: r.Opaque, Key: []byte(v.Stats[i-1]), Value: []byte(v.Stats[i])})
	}
	isGet := c.Verb == TextGet || c.Verb == TextGat
	status := binaryStatuses[v.Kind]
	switch {
	case c.Verb == TextStats && v.Kind == TextEnd:
		status = StatusOK
	case c.Verb == TextAdd && v.Kind == TextNotStored:
		status = StatusExists
	case c.Verb == TextReplace && v.Kind == TextNotStored:
		status = StatusNotFound
	case c.Verb == TextIncr && v.Kind == TextClientError, c.Verb == TextDecr && v.Kind == TextClientError:
		status = StatusNonNumeric
	}
	// A quiet get responds only to hits, and another quiet command only to errors.
	if r.Opcode.IsQuiet() && (status == StatusOK && !isGet || status == StatusNotFound && isGet) {
		return
	}
	response.Status, response.CAS = status, v.CAS
	switch {
	case status != StatusOK:
		response.Value = []byte(status.String())
	case isGet || loud == OpTouch:
		response.Extras, response.Value = AppendUint32Extras(nil, v.Flags), v.Value
	case v.Kind == TextNumber:
		response.Value = binary.BigEndian.AppendUint64(nil, v.Number)
	default:
		response.Value = []byte(v.Text)
	}
	if loud == OpGetK || loud == OpGATK {
		response.Key = r.Key
		if status == StatusNotFound {
			response.Value = nil
		}
	}
	w.Binary(&response)
}
