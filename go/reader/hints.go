package reader

import "encoding/base64"

const (
	// hintKeysMax is the number of keys at which the hints are sent. Once a second, the hints are sent
	// even if there are fewer.
	hintKeysMax = 64
	// hintLineBytesMax bounds a line of hints without its end. The server does not accept longer
	// lines.
	hintLineBytesMax = 2048
	// hintBytesMax bounds the collected hints in bytes, for the case that the server does not read
	// them. Above it, all collected hints are dropped.
	hintBytesMax = 64 << 10
	hintWord     = "larder_read"
)

// hints are the keys of a sample of the reads from a server's memory. The server does not observe
// these reads itself. It needs the hints to decide which items to evict.
type hints struct {
	// lines are the lines to send; the last one is incomplete.
	lines []byte
	// lastAt is the start of the last line.
	lastAt int
	keys   int
}

// push adds a key, and reports whether it is time to send the hints.
func (h *hints) push(key []byte) bool {
	if len(h.lines) > hintBytesMax {
		h.clear()
	}
	if len(h.lines)-h.lastAt+1+base64.StdEncoding.EncodedLen(len(key)) > hintLineBytesMax {
		h.endLine()
	}
	if len(h.lines) == h.lastAt {
		h.lines = append(h.lines, hintWord...)
	}
	h.lines = append(h.lines, ' ')
	h.lines = base64.StdEncoding.AppendEncode(h.lines, key)
	h.keys++
	return h.keys >= hintKeysMax
}

// moveTo moves all lines to out.
func (h *hints) moveTo(out []byte) []byte {
	if h.keys > 0 {
		h.endLine()
		out = append(out, h.lines...)
	}
	h.clear()
	return out
}

func (h *hints) endLine() {
	h.lines = append(h.lines, "\r\n"...)
	h.lastAt = len(h.lines)
}

func (h *hints) clear() {
	h.lines, h.lastAt, h.keys = h.lines[:0], 0, 0
}
