package wire

import (
	"slices"
	"strconv"
)

// MetaStatus is the first word of a response to a meta command.
type MetaStatus uint8

// What a server may answer. The last three can answer a text command as well.
const (
	MetaHeader      MetaStatus = iota + 1 // HD: done, or there
	MetaValue                             // VA: with a value
	MetaMiss                              // EN: of mg and me, not there
	MetaNotStored                         // NS
	MetaExists                            // EX: the cas value is another one
	MetaNotFound                          // NF
	MetaNoOpDone                          // MN
	MetaDebugInfo                         // ME
	MetaError                             // ERROR: no such command
	MetaClientError                       // CLIENT_ERROR
	MetaServerError                       // SERVER_ERROR
)

var metaWords = [...]string{
	MetaHeader: "HD", MetaValue: "VA", MetaMiss: "EN", MetaNotStored: "NS", MetaExists: "EX", MetaNotFound: "NF",
	MetaNoOpDone: "MN", MetaDebugInfo: "ME", MetaError: "ERROR", MetaClientError: "CLIENT_ERROR",
	MetaServerError: "SERVER_ERROR",
}

// String is the word on the line.
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

// MetaResponse is the answer to a meta command.
type MetaResponse struct {
	Status MetaStatus
	Flags  MetaFlags
	// Value is there with MetaValue.
	Value []byte
	// Text is what else MetaDebugInfo and the errors say.
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

// Parse reads a response from the beginning of b, as the package says.
func (r *MetaResponse) Parse(b []byte) (int, error) {
	line, head, err := cutLine(b)
	if err != nil {
		return 0, err
	}
	word, rest := nextWord(line)
	*r = MetaResponse{Status: metaStatus(word)}
	switch r.Status {
	case 0:
		return 0, syntax("the answer to a meta command", line, "")
	case MetaValue:
		word, rest = nextWord(rest)
		length, ok := parseLength(word)
		if !ok {
			return 0, syntax("the length of a value", line, "")
		}
		r.Flags = MetaFlags(trim(rest))
		r.Value, head, err = cutValue(b, head, length, "")
		if err != nil && err != ErrShort {
			head = 0
		}
		return head, err
	case MetaDebugInfo, MetaError, MetaClientError, MetaServerError:
		r.Text = trim(rest)
	default:
		r.Flags = MetaFlags(trim(rest))
	}
	return head, nil
}
