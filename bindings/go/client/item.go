package client

// Item is what is stored under a key.
type Item struct {
	// Key has 1 to 250 bytes; see ErrMalformedKey.
	Key string
	// Value is the caller's: the client neither keeps nor changes it.
	Value []byte
	// Flags are the caller's as well; the server returns them as they are.
	Flags uint32
	// Expiration is 0 for never, up to 30 days in seconds from now, above that in Unix time. What is negative expires
	// at once. It is not told by a server.
	Expiration int32
	// CasID is what CompareAndSwap compares. It is set by methods that read.
	CasID uint64
}
