package server

import "larder.example/larder/internal/grammar"

// metaLine is a meta command, with its key as the cache stores it: decoded if the command contains
// it in base64.
type metaLine struct {
	grammar.Meta
	plain   []byte
	decoded [grammar.KeyMax]byte
}

// metaLine executes a meta command.
func (c *conn) metaLine(b []byte, verb byte, rest []byte, head int) int {
	if verb == 'n' {
		return c.say(head, "MN\r\n")
	}
	m := &metaLine{Meta: grammar.Meta{Verb: verb}}
	m.Key, rest = grammar.CutWord(rest)
	if verb == 's' {
		return c.metaSet(b, m, rest, head)
	}
	if reply := m.parse(rest); reply != "" {
		return c.say(head, reply)
	}
	switch verb {
	case 'g':
		c.metaGet(m)
	case 'd':
		c.metaDelete(m)
	case 'a':
		c.metaCount(m)
	case 'e':
		c.metaDebug(m)
	}
	return head
}

func (m *metaLine) parse(rest []byte) (reply string) {
	m.plain, reply = m.Parse(rest, m.decoded[:])
	return reply
}

// newToken returns the token that the client has chosen for the item.
func (m *metaLine) newToken() chosenToken {
	return chosenToken{token: m.NewToken, exists: m.HasNewToken}
}

// show appends the flags that a response repeats, details of the item if it exists, and the end of
// the line.
func (m *metaLine) show(out []byte, detail func(out []byte, letter byte) []byte) []byte {
	return append(m.showFlags(out, detail), "\r\n"...)
}

// showFlags is like show, but does not append the end of the line.
func (m *metaLine) showFlags(out []byte, detail func(out []byte, letter byte) []byte) []byte {
	for rest := m.Flags; ; {
		var word []byte
		if word, rest = grammar.CutWord(rest); len(word) == 0 {
			return out
		}
		switch word[0] {
		case 'O':
			out = append(append(out, ' '), word...)
		case 'k':
			out = append(append(out, " k"...), m.Key...)
			if m.IsBase64 {
				out = append(out, " b"...)
			}
		default:
			if detail != nil {
				out = detail(out, word[0])
			}
		}
	}
}
