package server

import (
	"strconv"
	"unsafe"
)

// The response lines that several commands have.
const (
	badNumber = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
	// reservedFlags is the response to a store of flags that belong to the server.
	reservedFlags = "CLIENT_ERROR flags from 0xe0000000 to 0xefffffff are reserved for soft expiry\r\n"

	outOfMemory = "SERVER_ERROR out of memory storing object\r\n"
	noBuffers   = "SERVER_ERROR out of memory reading request\r\n"
	cacheClosed = "SERVER_ERROR the cache is closed\r\n"
	end         = "END\r\n"
)

// textOf returns bytes as a string without a copy, for a call that does not retain the string.
func textOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// appendUint appends a space and a number.
func appendUint(dst []byte, number uint64) []byte {
	if number < 10 {
		return append(dst, ' ', '0'+byte(number))
	}
	return strconv.AppendUint(append(dst, ' '), number, 10)
}
