package wire

// Dialect is one of the three protocols.
type Dialect uint8

// The protocols.
const (
	Text Dialect = iota + 1
	Meta
	Binary
)

// String returns the name of the protocol.
func (d Dialect) String() string {
	switch d {
	case Text:
		return "text"
	case Meta:
		return "meta"
	case Binary:
		return "binary"
	}
	return "unknown"
}

// Request is a command in any protocol. Dialect selects the field.
type Request struct {
	Dialect Dialect
	Text    TextRequest
	Meta    MetaRequest
	Binary  BinaryRequest
}

// Parse parses a command at the start of b, as described for the package. The first byte identifies
// the binary protocol, the first word the meta protocol.
func (r *Request) Parse(b []byte) (int, error) {
	switch {
	case len(b) == 0:
		return 0, ErrShort
	case b[0] == MagicRequest:
		r.Dialect = Binary
		return r.Binary.Parse(b)
	}
	line, head, err := cutRequest(b)
	if err != nil {
		r.Dialect, r.Text = Text, TextRequest{}
		return 0, err
	}
	if line, isMeta := cutMeta(line, head); isMeta {
		r.Dialect = Meta
		return r.Meta.parseLine(b, line, head)
	}
	r.Dialect = Text
	return r.Text.parseLine(b, line, head)
}

// AppendTo appends the command.
func (r *Request) AppendTo(dst []byte) []byte {
	switch r.Dialect {
	case Binary:
		return r.Binary.AppendTo(dst)
	case Meta:
		return r.Meta.AppendTo(dst)
	}
	return r.Text.AppendTo(dst)
}
