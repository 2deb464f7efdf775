package wire

import "encoding/binary"

// ExptimeNoCreate in the extras of an increment or decrement prevents the creation of an absent
// key.
const ExptimeNoCreate = 0xffffffff

// AppendStoreExtras appends the extras of set, add and replace.
func AppendStoreExtras(dst []byte, flags, exptime uint32) []byte {
	dst = binary.BigEndian.AppendUint32(dst, flags)
	return binary.BigEndian.AppendUint32(dst, exptime)
}

// ParseStoreExtras parses the extras of set, add and replace.
func ParseStoreExtras(extras []byte) (flags, exptime uint32, ok bool) {
	if len(extras) != 8 {
		return 0, 0, false
	}
	return binary.BigEndian.Uint32(extras), binary.BigEndian.Uint32(extras[4:]), true
}

// AppendCountExtras appends the extras of increment and decrement.
func AppendCountExtras(dst []byte, delta, initial uint64, exptime uint32) []byte {
	dst = binary.BigEndian.AppendUint64(dst, delta)
	dst = binary.BigEndian.AppendUint64(dst, initial)
	return binary.BigEndian.AppendUint32(dst, exptime)
}

// ParseCountExtras parses the extras of increment and decrement.
func ParseCountExtras(extras []byte) (delta, initial uint64, exptime uint32, ok bool) {
	if len(extras) != 20 {
		return 0, 0, 0, false
	}
	return binary.BigEndian.Uint64(extras), binary.BigEndian.Uint64(extras[8:]), binary.BigEndian.Uint32(extras[16:]), true
}

// AppendUint32Extras appends extras of one number: the flags of a value, the exptime of touch, gat
// and flush, or the level of verbosity.
func AppendUint32Extras(dst []byte, v uint32) []byte {
	return binary.BigEndian.AppendUint32(dst, v)
}

// ParseUint32Extras parses extras of one number.
func ParseUint32Extras(extras []byte) (v uint32, ok bool) {
	if len(extras) != 4 {
		return 0, false
	}
	return binary.BigEndian.Uint32(extras), true
}

// ParseCount parses the value of a response to increment and decrement.
func ParseCount(value []byte) (v uint64, ok bool) {
	if len(value) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(value), true
}
