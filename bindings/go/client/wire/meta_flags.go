package wire

import (
	"iter"
	"strconv"
)

// The flags of the meta protocol. Which of them a command knows is memcached's matter, and the server's.
const (
	FlagBase64       = 'b' // the key is in base64
	FlagCAS          = 'c' // return the cas value
	FlagFlags        = 'f' // return the client's flags
	FlagHit          = 'h' // return whether the item was asked for before
	FlagKey          = 'k' // return the key
	FlagLastAccess   = 'l' // return the seconds since the last access
	FlagOpaque       = 'O' // return this token
	FlagQuiet        = 'q' // no answer where nothing is to be told
	FlagSize         = 's' // return the length of the value
	FlagTTL          = 't' // return the seconds left, or -1
	FlagValue        = 'v' // return the value
	FlagNoBump       = 'u' // do not count as a use
	FlagCompare      = 'C' // only if the cas value is this one
	FlagNewCAS       = 'E' // the cas value to give to the item
	FlagSetFlags     = 'F' // the client's flags of the item
	FlagInvalidate   = 'I' // mark as stale; of ms: take a lower cas value, and mark as stale
	FlagSetTTL       = 'T' // the time to live of the item
	FlagMode         = 'M' // the mode of ms and ma
	FlagVivify       = 'N' // create what is missing, with this time to live
	FlagRecache      = 'R' // win if there are fewer seconds left than this
	FlagInitial      = 'J' // the first number
	FlagDelta        = 'D' // how much to add or take away
	FlagRemove       = 'x' // remove the value, keep the item
	FlagRecacheToken = 'W' // in a response: the peer has the right to bring the new value
	FlagStale        = 'X' // in a response: the item is stale
	FlagRecacheTaken = 'Z' // in a response: somebody else has that right
)

// A token that the peer wants to see again may have so many bytes.
const maxOpaqueBytes = 31

// MetaFlags are the flags of a meta command as they stand on its line: letters, some with a token behind them, with
// spaces between them. MetaFlags("v f T60") can be written down, or be built with Add, AddToken and AddInt.
type MetaFlags []byte

// All goes through the letters and their tokens, in the order in which a server answers them.
func (f MetaFlags) All() iter.Seq2[byte, []byte] {
	return func(yield func(byte, []byte) bool) {
		for word, rest := nextWord(f); len(word) > 0; word, rest = nextWord(rest) {
			if !yield(word[0], word[1:]) {
				return
			}
		}
	}
}

// Token returns what stands behind a letter, and whether the letter is there.
func (f MetaFlags) Token(letter byte) ([]byte, bool) {
	for word, rest := nextWord(f); len(word) > 0; word, rest = nextWord(rest) {
		if word[0] == letter {
			return word[1:], true
		}
	}
	return nil, false
}

// Has says whether a letter is there.
func (f MetaFlags) Has(letter byte) bool {
	_, ok := f.Token(letter)
	return ok
}

// Uint returns the number behind a letter. It is false where there is no such letter or no number behind it.
func (f MetaFlags) Uint(letter byte) (uint64, bool) {
	token, _ := f.Token(letter)
	return ParseUint(token)
}

// Int is Uint for a number that may be negative.
func (f MetaFlags) Int(letter byte) (int64, bool) {
	token, _ := f.Token(letter)
	return parseInt(token)
}

// Add returns the flags with one more behind them.
func (f MetaFlags) Add(letter byte) MetaFlags {
	if len(f) > 0 {
		f = append(f, ' ')
	}
	return append(f, letter)
}

// AddToken returns the flags with one more behind them that has a token. The token has no spaces in it.
func (f MetaFlags) AddToken(letter byte, token []byte) MetaFlags {
	return append(f.Add(letter), token...)
}

// AddUint returns the flags with one more behind them that has a number.
func (f MetaFlags) AddUint(letter byte, v uint64) MetaFlags {
	return strconv.AppendUint(f.Add(letter), v, 10)
}

// AddInt returns the flags with one more behind them that has a number, which may be negative.
func (f MetaFlags) AddInt(letter byte, v int64) MetaFlags {
	return strconv.AppendInt(f.Add(letter), v, 10)
}

// check says why a server does not take the flags, in memcached's words.
func (f MetaFlags) check() (reply string) {
	var seen [2]uint64
	for word, rest := nextWord(f); len(word) > 0; word, rest = nextWord(rest) {
		c := word[0]
		switch {
		case c >= '0' && c <= '9':
			return badFlag
		case c < 'A' || c > 'z':
			return badFormat
		case seen[c>>6]&(1<<(c&63)) != 0:
			return duplicateFlag
		case c == FlagOpaque && len(word) > 1+maxOpaqueBytes:
			return longOpaque
		}
		seen[c>>6] |= 1 << (c & 63)
	}
	return ""
}

func appendFlags(dst []byte, f MetaFlags) []byte {
	if len(f) > 0 {
		dst = append(dst, ' ')
		dst = append(dst, f...)
	}
	return dst
}
