package wire

import (
	"strconv"

	"larder.example/larder/internal/grammar"
)

var setModes = map[byte]TextVerb{
	'S': TextSet, 'E': TextAdd, 'R': TextReplace, 'A': TextAppend, 'P': TextPrepend,
}

// textVerb returns the verb with the same effect in the text protocol.
func (v MetaVerb) textVerb(mode byte) TextVerb {
	switch {
	case v == MetaGet:
		return TextGet
	case v == MetaSet:
		return setModes[mode]
	case v == MetaDelete:
		return TextDelete
	case mode == 'D':
		return TextDecr
	}
	return TextIncr
}

var metaStatuses = map[TextKind]MetaStatus{
	TextLine: MetaError, TextValue: MetaHeader, TextNumber: MetaHeader, TextEnd: MetaMiss, TextNotFound: MetaNotFound,
	TextStored: MetaHeader, TextNotStored: MetaNotStored, TextExists: MetaExists, TextDeleted: MetaHeader,
	TextTouched: MetaHeader, TextOK: MetaHeader, TextError: MetaError, TextClientError: MetaClientError,
	TextServerError: MetaServerError,
}

// command returns memcached's error line for a flag without an equivalent in other protocols.
func (r *MetaRequest) command() (c Command, reply string) {
	meta := grammar.Meta{Verb: byte(r.Verb), Key: r.Key}
	key, reply := meta.Parse(r.Flags, make([]byte, grammar.KeyMax))
	if reply != "" {
		return c, reply
	}
	c = Command{
		Verb: r.Verb.textVerb(meta.Mode), Key: key, Value: r.Value, Flags: meta.ClientFlags, CAS: meta.Compare,
		Delta: meta.Delta, Initial: meta.Initial, Creates: meta.HasVivify, Exptime: int32(meta.TTL),
	}
	for letter := range r.Flags.All() {
		switch letter {
		case FlagBase64, FlagCAS, FlagFlags, FlagKey, FlagOpaque, FlagQuiet, FlagSize, FlagValue, FlagMode, FlagNoBump:
		case FlagSetFlags, FlagCompare, FlagDelta, FlagInitial, FlagSetTTL:
		case FlagVivify:
			if r.Verb != MetaArithmetic {
				return c, grammar.BadFlag
			}
			c.Exptime = int32(meta.ExptimeOfNew())
		default:
			return c, grammar.BadFlag
		}
	}
	switch {
	case meta.HasTTL && c.Verb == TextGet:
		c.Verb = TextGat
	case meta.HasCompare && (c.Verb == TextSet || c.Verb == TextReplace || c.Verb == TextAdd):
		c.Verb = TextCAS
	}
	return c, ""
}

func (h CommandHandler) answerMeta(w *Writer, request *Request) {
	r := &request.Meta
	switch r.Verb {
	case MetaNoOp:
		w.Meta(&MetaResponse{Status: MetaNoOpDone})
		return
	case MetaDebug:
		w.Unknown(request)
		return
	}
	c, reply := r.command()
	if reply != "" {
		w.SetBuffer(append(w.Buffer(), reply...))
		return
	}
	v := h(&c)
	response := MetaResponse{Status: metaStatuses[v.Kind]}
	switch response.Status {
	case 0:
		response.Status = MetaError
	case MetaHeader, MetaMiss, MetaNotFound, MetaNotStored, MetaExists:
		v.showMeta(r, &response)
	default:
		response.Text = []byte(v.Text)
	}
	if r.Flags.Has(FlagQuiet) && r.isUsual(response.Status) {
		return
	}
	w.Meta(&response)
}

// isUsual reports whether the quiet form of a command has no response with this status.
func (r *MetaRequest) isUsual(s MetaStatus) bool {
	if r.Verb == MetaGet {
		return s == MetaMiss
	}
	return s == MetaHeader || s == MetaValue
}

// showMeta adds the details that the flags of a request require.
func (v *Result) showMeta(r *MetaRequest, response *MetaResponse) {
	value, found := v.Value, response.Status == MetaHeader
	if v.Kind == TextNumber {
		value = strconv.AppendUint(nil, v.Number, 10)
	}
	for letter, token := range r.Flags.All() {
		switch {
		case letter == FlagOpaque:
			response.Flags = response.Flags.AddToken(FlagOpaque, token)
		case letter == FlagKey:
			response.Flags = response.Flags.AddToken(FlagKey, r.Key)
			if r.Flags.Has(FlagBase64) {
				response.Flags = response.Flags.Add(FlagBase64)
			}
		case !found:
		case letter == FlagCAS:
			response.Flags = response.Flags.AddUint(FlagCAS, v.CAS)
		case letter == FlagFlags && r.Verb == MetaGet:
			response.Flags = response.Flags.AddUint(FlagFlags, uint64(v.Flags))
		case letter == FlagSize && r.Verb == MetaGet:
			response.Flags = response.Flags.AddUint(FlagSize, uint64(len(value)))
		case letter == FlagValue && r.Verb != MetaSet && r.Verb != MetaDelete:
			response.Status, response.Value = MetaValue, value
		}
	}
}
