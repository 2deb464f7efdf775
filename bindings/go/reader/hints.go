package reader

import "encoding/base64"

const (
	// hintKeysMax is how many reads are told at once; fewer when a second has passed.
	hintKeysMax = 64
	// hintLineBytesMax bounds a line of hints, without its end: the server reads no longer ones.
	hintLineBytesMax = 2048
	// hintBytesMax: more is not kept for a server that takes none.
	hintBytesMax = 64 << 10
	hintWord     = "larder_read"
)

// hints are what was read in a server's memory, to be told to the server now and then: else it would evict what is wanted.
type hints struct {
	// lines that wait to be sent; the last one has no end yet.
	lines []byte
	// lastAt is where that begins.
	lastAt int
	keys   int
}

// push takes in a key that was read. True where it is time to tell.
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

// moveTo appends all lines to out.
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
