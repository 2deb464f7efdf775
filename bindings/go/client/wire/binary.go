package wire

import (
	"encoding/binary"
	"slices"
)

// The first byte of a message of the binary protocol.
const (
	MagicRequest  = 0x80
	MagicResponse = 0x81
)

// BinaryHeaderBytes is the size of the header of a message of the binary protocol.
const BinaryHeaderBytes = 24

// BinaryRequest is a command of the binary protocol.
type BinaryRequest struct {
	Opcode   Opcode
	DataType uint8
	VBucket  uint16
	// Opaque is copied to the response.
	Opaque uint32
	CAS    uint64
	// Extras are the command's further arguments: see AppendStoreExtras and its kin.
	Extras, Key, Value []byte
}

// BinaryResponse is a response of the binary protocol.
type BinaryResponse struct {
	Opcode   Opcode
	DataType uint8
	Status   BinaryStatus
	// Opaque is that of the request.
	Opaque             uint32
	CAS                uint64
	Extras, Key, Value []byte
}

// AppendTo appends the request. It truncates extras to 255 bytes and keys to 65535.
func (r *BinaryRequest) AppendTo(dst []byte) []byte {
	return append(r.appendHead(dst, len(r.Value), len(r.Value)), r.Value...)
}

// AppendHeadTo appends the request without its value, for a caller that sends valueBytes
// separately.
func (r *BinaryRequest) AppendHeadTo(dst []byte, valueBytes int) []byte {
	return r.appendHead(dst, valueBytes, 0)
}

func (r *BinaryRequest) appendHead(dst []byte, valueBytes, spare int) []byte {
	dst, h := appendBody(dst, r.Extras, r.Key, valueBytes, spare)
	h[0], h[1], h[5] = MagicRequest, byte(r.Opcode), r.DataType
	binary.BigEndian.PutUint16(h[6:], r.VBucket)
	binary.BigEndian.PutUint32(h[12:], r.Opaque)
	binary.BigEndian.PutUint64(h[16:], r.CAS)
	return dst
}

// AppendTo appends the response. It truncates extras to 255 bytes and keys to 65535.
func (r *BinaryResponse) AppendTo(dst []byte) []byte {
	return append(r.appendHead(dst, len(r.Value), len(r.Value)), r.Value...)
}

// AppendHeadTo appends the response without its value, for a caller that sends valueBytes
// separately.
func (r *BinaryResponse) AppendHeadTo(dst []byte, valueBytes int) []byte {
	return r.appendHead(dst, valueBytes, 0)
}

func (r *BinaryResponse) appendHead(dst []byte, valueBytes, spare int) []byte {
	dst, h := appendBody(dst, r.Extras, r.Key, valueBytes, spare)
	h[0], h[1], h[5] = MagicResponse, byte(r.Opcode), r.DataType
	binary.BigEndian.PutUint16(h[6:], uint16(r.Status))
	binary.BigEndian.PutUint32(h[12:], r.Opaque)
	binary.BigEndian.PutUint64(h[16:], r.CAS)
	return dst
}

// appendBody appends a header that contains only the lengths, then extras and key, and reserves
// spare bytes. It also returns the header.
func appendBody(dst, extras, key []byte, valueBytes, spare int) (longer, header []byte) {
	extras, key = extras[:min(len(extras), 0xff)], key[:min(len(key), 0xffff)]
	at, head := len(dst), BinaryHeaderBytes+len(extras)+len(key)
	if cap(dst)-at < head+spare {
		dst = slices.Grow(dst, head+spare)
	}
	dst = dst[:at+head]
	h := dst[at : at+BinaryHeaderBytes : at+BinaryHeaderBytes]
	binary.BigEndian.PutUint16(h[2:], uint16(len(key)))
	h[4] = byte(len(extras))
	binary.BigEndian.PutUint32(h[8:], uint32(len(extras)+len(key)+valueBytes))
	if len(extras) > 0 {
		copy(dst[at+BinaryHeaderBytes:], extras)
	}
	copy(dst[at+BinaryHeaderBytes+len(extras):], key)
	return dst, h
}

// Parse parses a request at the start of b, as described for the package. The server has to check
// extras and key. If the error is [ErrShort] and n is not 0, all fields but Extras, Key and Value
// are set.
func (r *BinaryRequest) Parse(b []byte) (int, error) {
	body, n, err := cutMessage(b, MagicRequest, "a binary request")
	if !headerKnown(n) {
		return n, err
	}
	r.Opcode, r.DataType = Opcode(b[1]), b[5]
	r.VBucket, r.Opaque, r.CAS = binary.BigEndian.Uint16(b[6:]), binary.BigEndian.Uint32(b[12:]), binary.BigEndian.Uint64(b[16:])
	r.Extras, r.Key, r.Value = body.extras, body.key, body.value
	return n, err
}

// Parse parses a response at the start of b, as described for the package.
func (r *BinaryResponse) Parse(b []byte) (int, error) {
	body, n, err := cutMessage(b, MagicResponse, "a binary response")
	if !headerKnown(n) {
		return n, err
	}
	r.Opcode, r.DataType = Opcode(b[1]), b[5]
	r.Status, r.Opaque, r.CAS = BinaryStatus(binary.BigEndian.Uint16(b[6:])), binary.BigEndian.Uint32(b[12:]), binary.BigEndian.Uint64(b[16:])
	r.Extras, r.Key, r.Value = body.extras, body.key, body.value
	return n, err
}

// headerKnown reports whether the header is complete, so that the length is known.
func headerKnown(n int) bool { return n >= BinaryHeaderBytes }

type binaryBody struct{ extras, key, value []byte }

func cutMessage(b []byte, magic byte, what string) (body binaryBody, n int, err error) {
	if len(b) > 0 && b[0] != magic {
		return body, 0, syntax(what, b[:1], "")
	}
	if len(b) < BinaryHeaderBytes {
		return body, 0, ErrShort
	}
	extras, key := int(b[4]), int(binary.BigEndian.Uint16(b[2:]))
	length := uint64(binary.BigEndian.Uint32(b[8:]))
	if length > maxValueBytes {
		return body, 0, syntax("a body of less than 2 GiB", b[:BinaryHeaderBytes], "")
	}
	if uint64(extras+key) > length {
		return body, 0, syntax("a body with space for extras and key", b[:BinaryHeaderBytes], "")
	}
	n = BinaryHeaderBytes + int(length)
	if len(b) < n {
		return body, n, ErrShort
	}
	at := BinaryHeaderBytes
	body.extras = b[at : at+extras : at+extras]
	body.key = b[at+extras : at+extras+key : at+extras+key]
	body.value = b[at+extras+key : n : n]
	return body, n, nil
}
