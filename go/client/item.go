package client

// Item is an item of the cache.
type Item struct {
	// Key has 1 to 250 bytes; see ErrMalformedKey.
	Key string
	// Value belongs to the caller: the client neither retains nor modifies it.
	Value []byte
	// Flags are opaque bits of the caller, which the server returns unchanged.
	Flags uint32
	// Expiration is 0 for never, seconds from now up to 30 days, and a Unix time above. An item with
	// a negative value expires immediately. Reads do not set it.
	Expiration int32
	// CasID is the token that CompareAndSwap compares. Reads set it.
	CasID uint64
}
