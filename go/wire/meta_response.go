package wire

import (
	"slices"
	"strconv"

	"larder.example/larder/internal/grammar"
)

// MetaStatus is the first word of a response to a meta command.
type MetaStatus uint8

// The statuses. The last three may also answer a text command.
const (
	MetaHeader      MetaStatus = iota + 1 // HD: success without a value
	MetaValue                             // VA: success with a value
	MetaMiss                              // EN: mg or me found no item
	MetaNotStored                         // NS: the condition does not hold
	MetaExists                            // EX: the CAS token differs
	MetaNotFound                          // NF: no such item
	MetaNoOpDone                          // MN
	MetaDebugInfo                         // ME
	MetaError                             // ERROR: unknown command
	MetaClientError                       // CLIENT_ERROR
	MetaServerError                       // SERVER_ERROR
)

var metaWords = [...]string{
	MetaHeader: "HD", MetaValue: "VA", MetaMiss: "EN", MetaNotStored: "NS", MetaExists: "EX", MetaNotFound: "NF",
	MetaNoOpDone: "MN", MetaDebugInfo: "ME", MetaError: "ERROR", MetaClientError: "CLIENT_ERROR",
	MetaServerError: "SERVER_ERROR",
}

// String returns the word on the line.
func (s MetaStatus) String() string {
	if int(s) < len(metaWords) && metaWords[s] != "" {
		return metaWords[s]
	}
	return "MetaStatus(" + strconv.Itoa(int(s)) + ")"
}

func metaStatus(word []byte) MetaStatus {
	for status := MetaHeader; status <= MetaServerError; status++ {
		if string(word) == metaWords[status] {
			return status
		}
	}
	return 0
}

// MetaResponse is a response of the meta protocol.
type MetaResponse struct {
	Status MetaStatus
	Flags  MetaFlags
	// Value is set with MetaValue.
	Value []byte
	// Text is the rest of the line with MetaDebugInfo and the errors.
	Text []byte
}

// AppendTo appends the response.
func (r *MetaResponse) AppendTo(dst []byte) []byte {
	dst = slices.Grow(dst, len(r.Flags)+len(r.Value)+len(r.Text)+40)
	dst = append(dst, r.Status.String()...)
	switch r.Status {
	case MetaValue:
		dst = append(dst, ' ')
		dst = strconv.AppendUint(dst, uint64(len(r.Value)), 10)
		dst = appendFlags(dst, r.Flags)
		dst = append(dst, "\r\n"...)
		dst = append(dst, r.Value...)
	case MetaDebugInfo, MetaError, MetaClientError, MetaServerError:
		dst = appendFlags(dst, r.Text)
	default:
		dst = appendFlags(dst, r.Flags)
	}
	return append(dst, "\r\n"...)
}

// Parse parses a response at the start of b, as described for the package.
func (r *MetaResponse) Parse(b []byte) (int, error) {
	line, head, err := cutResponse(b)
	if err != nil {
		return 0, err
	}
	word, rest := grammar.CutWord(line)
	*r = MetaResponse{Status: metaStatus(word)}
	switch r.Status {
	case 0:
		return 0, syntax("a response to a meta command", line, "")
	case MetaValue:
		word, rest = grammar.CutWord(rest)
		length, ok := grammar.ParseLength(word)
		if !ok {
			return 0, syntax("the length of a value", line, "")
		}
		n, fits := valueMessageBytes(head, length)
		if !fits {
			return 0, tooLong(word, "")
		}
		r.Flags = MetaFlags(grammar.Trim(rest))
		r.Value, err = cutValue(b, head, n, "")
		if err != nil && err != ErrShort {
			n = 0
		}
		return n, err
	case MetaDebugInfo, MetaError, MetaClientError, MetaServerError:
		r.Text = grammar.Trim(rest)
	default:
		r.Flags = MetaFlags(grammar.Trim(rest))
	}
	return head, nil
}
