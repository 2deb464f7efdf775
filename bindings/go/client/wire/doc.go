// Package wire has memcached's three protocols, text, meta and binary, for both sides of a connection: a client
// encodes requests and parses responses, a server parses requests and encodes responses.
//
// Every message is a struct with two methods. AppendTo writes it behind what is in a slice and returns the longer
// slice; nothing else is allocated. Parse reads one from the beginning of a slice, copies nothing, and leaves slices
// of what it was given in the struct: they are good until the bytes are overwritten.
//
//	n, err := m.Parse(b)
//
// err is nil: the message takes the first n bytes of b.
//
// err is [ErrShort]: there is more to come. n is how long the message will be, if that can be told already, else 0.
//
// err is a [*SyntaxError]: this is no message of that kind. The next one begins n bytes on, which may lie behind the
// end of b. If n is 0 nobody knows where the next one begins, and the connection is best closed.
//
// How a stream is cut into reads makes no difference to what is parsed, no length that the peer announces is believed
// before its bytes have come, and no bytes make a parser panic.
//
// [Reader] and [Writer] put buffers of bounded size between messages and connections. [Server] is a server that lacks
// nothing but what it shall answer.
package wire
