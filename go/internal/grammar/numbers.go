package grammar

import (
	"bytes"
	"math"
)

// ParseUint parses a decimal number below 2^64 of at most 22 digits.
func ParseUint(word []byte) (number uint64, ok bool) {
	if len(word) == 0 || len(word) > 22 {
		return 0, false
	}
	for _, c := range word {
		digit := uint64(c - '0')
		if digit > 9 || number > (math.MaxUint64-digit)/10 {
			return 0, false
		}
		number = number*10 + digit
	}
	return number, true
}

// ParseInt parses a decimal number that may be negative.
func ParseInt(word []byte) (number int64, ok bool) {
	isNegative := len(word) > 0 && word[0] == '-'
	if isNegative {
		word = word[1:]
	}
	size, ok := ParseUint(word)
	switch {
	case !ok || size > math.MaxInt64+1 || size > math.MaxInt64 && !isNegative:
		return 0, false
	case isNegative:
		return -int64(size), true
	}
	return int64(size), true
}

// ParseExptime parses a signed number of 32 bits. Routers write negative numbers as unsigned
// numbers.
func ParseExptime(word []byte) (exptime int32, ok bool) {
	number, ok := ParseInt(word)
	return int32(number), ok && number >= math.MinInt32 && number <= math.MaxUint32
}

// ParseLength parses the length of a value.
func ParseLength(word []byte) (length int, ok bool) {
	number, ok := ParseUint(word)
	return int(number), ok && number <= ValueMax
}

// ParseCounter parses a value that incr and decr change: digits between white space.
func ParseCounter(value []byte) (number uint64, ok bool) {
	return ParseUint(bytes.Trim(value, " \t\n\v\f\r"))
}

// withoutPlus returns a number without a leading plus sign, which the flags and the exptime of a
// storage command may have. A plus sign before a minus sign stays, and makes the number invalid.
func withoutPlus(word []byte) []byte {
	if len(word) > 1 && word[0] == '+' && word[1] != '-' {
		return word[1:]
	}
	return word
}
