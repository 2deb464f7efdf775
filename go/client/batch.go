package client

import "larder.example/larder/wire"

const (
	// Values of up to chunkValueBytes share an allocation, a chunk of up to chunkBytes. A program that
	// retains one of these values also retains its chunk.
	chunkValueBytes = 256
	chunkBytes      = 4 << 10
)

// metaBatch is the next part of the responses to a multi-get: several items with small values, or
// one response of any kind. It fills the items while it parses them, because a message of package
// wire for each small item would take most of the time.
type metaBatch struct {
	keys    []string
	newItem func() *Item
	// next is the index of the first key that may still have a response.
	next int
	// bytesMax limits the bytes of several items.
	bytesMax int
	// isOne is true if the part is one response, which response then contains.
	isOne    bool
	response wire.MetaResponse
}

// Parse implements [wire.Parser].
func (m *metaBatch) Parse(b []byte) (n int, err error) {
	var v metaValue
	if m.isOne = !m.cut(b, 0, &v); m.isOne {
		return m.response.Parse(b)
	}
	// The reader reuses b. Copy all values at once, with the lines between them.
	b = append([]byte(nil), b[:min(len(b), m.bytesMax)]...)
	for isValue := true; isValue; isValue = m.cut(b, n, &v) {
		m.next, n = v.number+1, v.end+len("\r\n")
		item := m.newItem()
		item.Key, item.Value = m.keys[v.number], b[v.start:v.end:v.end]
		item.Flags, item.CasID = uint32(v.flags), v.cas
	}
	return n, nil
}

// metaValue is a response with a value, which begins at start and ends before end.
type metaValue struct {
	start, end, number int
	cas, flags         uint64
}

// cut parses the response with a small value at a position, if it is complete, has the flags of
// appendMetaMany in their order, and belongs to one of the next keys.
func (m *metaBatch) cut(b []byte, at int, v *metaValue) bool {
	if len(b)-at < len("VA 0 c0 f0 O0") || b[at] != 'V' || b[at+1] != 'A' || b[at+2] != ' ' {
		return false
	}
	length, at := digits(b, at+len("VA "))
	if !isFlag(b, at, 'c') {
		return false
	}
	v.cas, at = digits(b, at+len(" c"))
	if !isFlag(b, at, 'f') {
		return false
	}
	v.flags, at = digits(b, at+len(" f"))
	if !isFlag(b, at, 'O') {
		return false
	}
	number, at := digits(b, at+len(" O"))
	if at < 0 || length > chunkValueBytes || number < uint64(m.next) || number >= uint64(len(m.keys)) {
		return false
	}
	v.number, v.start = int(number), at+len("\r\n")
	v.end = v.start + int(length)
	return v.end+1 < len(b) && b[at] == '\r' && b[at+1] == '\n' && b[v.end] == '\r' && b[v.end+1] == '\n'
}

// digits parses the decimal number at a position. It returns the position after the number, or -1
// if there is no number, or one that may be too large.
func digits(b []byte, start int) (number uint64, end int) {
	for end = start; end < len(b); end++ {
		digit := b[end] - '0'
		if digit > 9 {
			break
		}
		number = number*10 + uint64(digit)
	}
	// Numbers of 19 digits do not overflow.
	if end == start || end-start > 19 {
		return 0, -1
	}
	return number, end
}

// isFlag reports whether a flag with this letter is at a position. The position may be -1.
func isFlag(b []byte, at int, letter byte) bool {
	return at >= 0 && at+1 < len(b) && b[at] == ' ' && b[at+1] == letter
}
