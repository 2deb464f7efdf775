package wire

import (
	"iter"
	"strconv"

	"larder.example/larder/internal/grammar"
)

// The flags of the meta protocol. A command ignores the flags of other commands.
const (
	FlagBase64       = 'b' // the key is in base64
	FlagCAS          = 'c' // return the CAS token
	FlagFlags        = 'f' // return the client flags
	FlagHit          = 'h' // return whether the item was read before
	FlagKey          = 'k' // return the key
	FlagLastAccess   = 'l' // return the seconds since the last access
	FlagOpaque       = 'O' // return this token
	FlagQuiet        = 'q' // suppress the response to the usual outcome
	FlagSize         = 's' // return the length of the value
	FlagTTL          = 't' // return the remaining seconds to live, or -1
	FlagValue        = 'v' // return the value
	FlagNoBump       = 'u' // do not count as an access
	FlagCompare      = 'C' // only if the CAS token equals this one
	FlagNewCAS       = 'E' // the new CAS token of the item
	FlagSetFlags     = 'F' // the client flags of the item
	FlagInvalidate   = 'I' // mark as stale; for ms: accept a lower CAS token, and mark as stale
	FlagSetTTL       = 'T' // the time to live of the item
	FlagMode         = 'M' // the mode of ms and ma
	FlagVivify       = 'N' // create an absent item with this time to live
	FlagRecache      = 'R' // grant the recache token if fewer seconds remain
	FlagInitial      = 'J' // the initial number
	FlagDelta        = 'D' // the number to add or subtract
	FlagRemove       = 'x' // remove the value and keep the item
	FlagRecacheToken = 'W' // in a response: the client has the recache token
	FlagStale        = 'X' // in a response: the item is stale
	FlagRecacheTaken = 'Z' // in a response: another client has the recache token
)

// MetaFlags are the flags of a meta command in the format of its line: letters separated by spaces,
// some followed by a token. Create them with a conversion such as MetaFlags("v f T60"), or with
// Add, AddToken and AddInt.
type MetaFlags []byte

// All returns an iterator over the letters and their tokens, in the order of the line.
func (f MetaFlags) All() iter.Seq2[byte, []byte] {
	return func(yield func(byte, []byte) bool) {
		for word, rest := grammar.CutWord(f); len(word) > 0; word, rest = grammar.CutWord(rest) {
			if !yield(word[0], word[1:]) {
				return
			}
		}
	}
}

// Token returns the token of a letter, and reports whether the letter is present.
func (f MetaFlags) Token(letter byte) ([]byte, bool) {
	for word, rest := grammar.CutWord(f); len(word) > 0; word, rest = grammar.CutWord(rest) {
		if word[0] == letter {
			return word[1:], true
		}
	}
	return nil, false
}

// Has reports whether a letter is present.
func (f MetaFlags) Has(letter byte) bool {
	_, ok := f.Token(letter)
	return ok
}

// Uint returns the number after a letter, and reports whether the letter has a number.
func (f MetaFlags) Uint(letter byte) (uint64, bool) {
	token, _ := f.Token(letter)
	return ParseUint(token)
}

// Int is like Uint, for a number that may be negative.
func (f MetaFlags) Int(letter byte) (int64, bool) {
	token, _ := f.Token(letter)
	return grammar.ParseInt(token)
}

// Add returns the flags with a letter appended.
func (f MetaFlags) Add(letter byte) MetaFlags {
	if len(f) > 0 {
		f = append(f, ' ')
	}
	return append(f, letter)
}

// AddToken returns the flags with a letter and its token appended. The token must not contain
// spaces.
func (f MetaFlags) AddToken(letter byte, token []byte) MetaFlags {
	return append(f.Add(letter), token...)
}

// AddUint returns the flags with a letter and a number appended.
func (f MetaFlags) AddUint(letter byte, v uint64) MetaFlags {
	return strconv.AppendUint(f.Add(letter), v, 10)
}

// AddInt returns the flags with a letter and a number appended. The number may be negative.
func (f MetaFlags) AddInt(letter byte, v int64) MetaFlags {
	return strconv.AppendInt(f.Add(letter), v, 10)
}

func appendFlags(dst []byte, f MetaFlags) []byte {
	if len(f) > 0 {
		dst = append(dst, ' ')
		dst = append(dst, f...)
	}
	return dst
}
