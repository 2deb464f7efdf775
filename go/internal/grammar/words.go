package grammar

import "bytes"

// CutLine returns the line at the start of b without its end, and its length including the end. The
// length is 0 if the first most bytes contain no end.
func CutLine(b []byte, most int) (line []byte, n int) {
	at := bytes.IndexByte(b[:min(len(b), most)], '\n')
	if at < 0 {
		return nil, 0
	}
	line = b[:at:at]
	if at > 0 && line[at-1] == '\r' {
		line = line[:at-1]
	}
	return line, at + 1
}

// CutCommand returns the command of a line, and the rest after it. The line has n bytes including
// its end.
func CutCommand(line []byte, n int) (command, rest []byte, reply string) {
	switch {
	case n < 4:
		return nil, nil, BadFormat
	case line[0] == ' ':
		return nil, line, Unknown
	}
	command, rest = CutWord(line)
	return command, rest, ""
}

// IsList returns true for the start of a line that is a list of keys, and may have any length.
func IsList(b []byte) bool {
	command, _, _ := bytes.Cut(b[:min(len(b), len("gats "))], []byte(" "))
	switch string(command) {
	case "get", "gets", "gat", "gats":
		return len(b) > len(command)
	}
	return false
}

// CutWord returns the first word of a line, and the rest after it.
func CutWord(b []byte) (word, rest []byte) {
	for len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	// Most words are short, and a loop over a few bytes is faster than a call of bytes.IndexByte.
	for at := range min(len(b), 16) {
		if b[at] == ' ' {
			return b[:at:at], b[at:]
		}
	}
	if len(b) > 16 {
		if at := bytes.IndexByte(b[16:], ' '); at >= 0 {
			at += 16
			return b[:at:at], b[at:]
		}
	}
	return b, nil
}

// Trim returns b without the spaces around it.
func Trim(b []byte) []byte {
	for len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	for len(b) > 0 && b[len(b)-1] == ' ' {
		b = b[:len(b)-1]
	}
	return b
}

// Words is a list of the words of a line after its command.
type Words struct {
	// First has the first words of the line.
	First [6][]byte
	// Count is the number of all words.
	Count int
	// last is the last word that memcached reads.
	last []byte
}

// CutWords splits the rest of a line after its command.
func CutWords(rest []byte) (w Words) {
	for {
		var word []byte
		if word, rest = CutWord(rest); len(word) == 0 {
			return w
		}
		if w.Count < len(w.First) {
			w.First[w.Count] = word
		}
		w.Count++
		// The command counts as a word.
		if w.Count < wordsMax {
			w.last = word
		}
	}
}

// lastWord returns the last word of rest that memcached parses, or nil if rest contains no word.
// rest is a line without its command and the first count words after it.
func lastWord(rest []byte, count int) (last []byte) {
	for {
		var word []byte
		if word, rest = CutWord(rest); len(word) == 0 {
			return last
		}
		if count++; count < wordsMax {
			last = word
		}
	}
}

// IsQuiet returns true if the line ends in noreply.
func (w *Words) IsQuiet() bool { return string(w.last) == "noreply" }

// IsHTTP returns true for the first line of an HTTP request. A web page may have tricked a browser
// into sending it to this server.
func (w *Words) IsHTTP() bool { return bytes.HasPrefix(w.last, []byte("HTTP/")) }

// UnknownWords returns the words of a line with an unknown command. If the line has no other word,
// the command itself counts as its last word.
func UnknownWords(command, rest []byte) Words {
	w := CutWords(rest)
	if w.Count == 0 {
		w.last = command
	}
	return w
}
