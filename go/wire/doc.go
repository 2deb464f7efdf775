// Package wire implements memcached's three protocols, text, meta and binary, for both sides of a
// connection: a client encodes requests and parses responses, a server parses requests and encodes
// responses.
//
// Every message is a struct with two methods. AppendTo appends the encoded message to a slice and
// returns the extended slice; it allocates nothing else. Parse parses a message at the start of a
// slice. It copies nothing: the struct refers to parts of the slice, which are valid until the
// slice is overwritten.
//
//	n, err := m.Parse(b)
//
// If err is nil, the message takes the first n bytes of b.
//
// If err is [ErrShort], the message is incomplete. n is its length if the length is already known,
// otherwise 0.
//
// If err is a [*SyntaxError], the bytes are not a valid message of this kind. The next message
// begins after n bytes, possibly beyond the end of b. If n is 0, the start of the next message is
// unknown, and the connection should be closed.
//
// The result does not depend on how a stream is split into reads. A parser does not allocate memory
// for announced lengths, and does not panic on any input.
//
// [Reader] and [Writer] are bounded buffers between messages and connections. [Conn] combines both
// on one connection. [Server] is a complete server except for a handler of the commands: a
// [Handler] of messages, or a [CommandHandler] for the commands that all protocols have.
package wire
