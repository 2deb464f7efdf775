package grammar

import (
	"bytes"
	"math"
)

// Store is the line of a storage command.
type Store struct {
	Key     []byte
	Flags   uint32
	Exptime int32
	// Token is the token of cas.
	Token uint64
	// Length is the length of the value. HasLength is false if the line has no valid length; then the
	// start of the next command is unknown.
	Length    int
	HasLength bool
	IsQuiet   bool
}

// Parse parses the rest of a line after the storage command. The command is cas if hasToken is
// true.
func (s *Store) Parse(rest []byte, hasToken bool) (reply string) {
	key, rest := CutWord(rest)
	flagsWord, rest := CutWord(rest)
	exptimeWord, rest := CutWord(rest)
	lengthWord, rest := CutWord(rest)
	if s.Length, s.HasLength = ParseLength(lengthWord); !s.HasLength {
		// Send the error even if the line ends in noreply: the client and the server are out of sync, and
		// the client must notice it.
		return BadFormat
	}
	flags, flagsOK := ParseUint(withoutPlus(flagsWord))
	exptime, exptimeOK := ParseInt(withoutPlus(exptimeWord))
	s.Key, s.Flags, s.Exptime = key, uint32(flags), int32(exptime)
	s.IsQuiet = string(lastWord(rest, 4)) == "noreply"
	tokenOK := true
	if hasToken {
		word, _ := CutWord(rest)
		s.Token, tokenOK = ParseUint(word)
	}
	if !IsKey(s.Key) || !flagsOK || !exptimeOK || !tokenOK {
		return BadFormat
	}
	return ""
}

// CutExptime returns the exptime of gat and gats, and the rest after it.
func CutExptime(rest []byte) (exptime int32, keys []byte, reply string) {
	word, keys := CutWord(rest)
	if first, _ := CutWord(keys); len(first) == 0 {
		return 0, nil, BadFormat
	}
	exptime, ok := ParseExptime(word)
	if !ok {
		return 0, nil, BadExptime
	}
	return exptime, keys, ""
}

// CutKey returns the first key of a list, and the rest after it. At the end of the list the key is
// empty.
func CutKey(rest []byte) (key, others []byte, isValid bool) {
	key, others = CutWord(rest)
	return key, others, len(key) <= KeyMax
}

// CheckDelete checks the words of delete.
func (w *Words) CheckDelete() (reply string) {
	if !IsKey(w.First[0]) {
		return BadFormat
	}
	// Old clients send a delay and expect the server to respect it.
	others := w.Count - 1
	if others > 0 && w.IsQuiet() {
		others--
	}
	if others > 1 || others == 1 && isDelay(w.First[1]) {
		return BadUsage
	}
	return ""
}

// isDelay returns true for a number, of any size, that is not 0.
func isDelay(word []byte) bool {
	digits := bytes.TrimPrefix(word, []byte("-"))
	return len(bytes.Trim(digits, "0123456789")) == 0 && len(bytes.Trim(digits, "0")) > 0
}

// Delta parses the words of incr and decr: a key, and the number to add or subtract.
func (w *Words) Delta() (delta uint64, reply string) {
	if !w.hasKeyAndNumber() {
		return 0, BadFormat
	}
	delta, ok := ParseUint(w.First[1])
	if !ok {
		return 0, BadDelta
	}
	return delta, ""
}

// Touch parses the words of touch: a key, and its exptime.
func (w *Words) Touch() (exptime int32, reply string) {
	if !w.hasKeyAndNumber() {
		return 0, BadFormat
	}
	exptime, ok := ParseExptime(w.First[1])
	if !ok {
		return 0, BadExptime
	}
	return exptime, ""
}

func (w *Words) hasKeyAndNumber() bool {
	if w.Count < 2 {
		// The only word is the key, even if it is "noreply".
		w.last = nil
		return false
	}
	return IsKey(w.First[0])
}

// FlushDelay parses the words of flush_all: nothing, or a delay.
func (w *Words) FlushDelay() (delay int32, reply string) {
	if w.Count == 0 || w.Count == 1 && w.IsQuiet() {
		return 0, ""
	}
	delay, ok := ParseExptime(w.First[0])
	if !ok {
		return 0, BadExptime
	}
	return delay, ""
}

// Verbosity parses the words of verbosity: its level.
func (w *Words) Verbosity() (level uint32, reply string) {
	number, ok := ParseUint(w.First[0])
	if !ok || number > math.MaxUint32 {
		return 0, BadFormat
	}
	return uint32(number), ""
}
