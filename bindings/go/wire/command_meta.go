package wire

import "strconv"

// metaVerbs has the words of meta commands, with the mode of the flag M.
var metaVerbs = map[string]TextVerb{
	"mg": TextGet, "md": TextDelete, "ms": TextSet, "msS": TextSet, "msE": TextAdd, "msR": TextReplace, "msA": TextAppend,
	"msP": TextPrepend, "ma": TextIncr, "maI": TextIncr, "ma+": TextIncr, "maD": TextDecr, "ma-": TextDecr,
}

var metaStatuses = map[TextKind]MetaStatus{
	TextLine: MetaError, TextValue: MetaHeader, TextNumber: MetaHeader, TextEnd: MetaMiss, TextNotFound: MetaNotFound,
	TextStored: MetaHeader, TextNotStored: MetaNotStored, TextExists: MetaExists, TextDeleted: MetaHeader,
	TextTouched: MetaHeader, TextOK: MetaHeader, TextError: MetaError, TextClientError: MetaClientError,
	TextServerError: MetaServerError,
}

// command returns memcached's error line for a flag without an equivalent in other protocols.
func (r *MetaRequest) command() (c Command, reply string) {
	key, err := r.DecodeKey(nil)
	if err != nil {
		return c, err.(*SyntaxError).Reply
	}
	mode, _ := r.Flags.Token(FlagMode)
	c = Command{Verb: metaVerbs[r.Verb.String()+string(mode)], Key: key, Value: r.Value, Delta: 1}
	if c.Verb == TextOther {
		return c, "CLIENT_ERROR invalid mode for " + r.Verb.String() + " M token"
	}
	for letter, token := range r.Flags.All() {
		n, isNumber := ParseUint(token)
		signed, isSigned := parseInt(token)
		ok := true
		switch letter {
		case FlagBase64, FlagCAS, FlagFlags, FlagKey, FlagOpaque, FlagQuiet, FlagSize, FlagValue, FlagMode, FlagNoBump:
		case FlagSetFlags:
			c.Flags, ok = uint32(n), isNumber
		case FlagCompare:
			c.CAS, ok = n, isNumber
			if c.Verb == TextSet || c.Verb == TextReplace || c.Verb == TextAdd {
				c.Verb = TextCAS
			}
		case FlagDelta:
			c.Delta, ok = n, isNumber
		case FlagInitial:
			c.Initial, ok = n, isNumber
		case FlagSetTTL, FlagVivify:
			c.Exptime, ok = int32(signed), isSigned
			if letter == FlagVivify {
				c.Creates, ok = true, isSigned && r.Verb == MetaArithmetic
			} else if c.Verb == TextGet {
				c.Verb = TextGat
			}
		default:
			return c, badFlag
		}
		if !ok {
			return c, badFormat
		}
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
		w.SetBuffer(append(append(w.Buffer(), reply...), "\r\n"...))
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

// showMeta adds what the flags of a request ask for.
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
