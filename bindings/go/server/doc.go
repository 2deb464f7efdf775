// Package server serves a cache of the process to memcached clients, on any [net.Listener]. The
// program and the clients use one cache: what one of them stores, the others read.
//
//	cache, err := larder.Open(larder.Options{Memory: 256 << 20, CAS: true})
//	...
//	listener, err := net.Listen("tcp", "127.0.0.1:11211")
//	...
//	err = server.New(cache, server.Options{}).Serve(listener)
//
// The server neither encrypts nor asks for a password by default: listen on a loopback address, a
// unix socket or a private network, or use [crypto/tls.NewListener] and [Options].Auth.
//
// # Protocols
//
// The first byte of a connection selects the binary protocol, or the text protocol with its meta
// commands. Responses are those of memcached 1.6.45, with the differences that docs/protocol.md of
// the repository lists for larderd, and these:
//
//   - The commands are get, gets, gat, gats, set, add, replace, append, prepend, cas, incr, decr,
//     touch, delete, flush_all, version, verbosity, stats, quit, mg, ms, md, ma, mn, me, and all
//     opcodes of the binary protocol. cache_memlimit is refused. Other commands, such as
//     lru_crawler, slabs, watch and shutdown, get ERROR.
//   - The meta flags N and R of mg, I and E of ms and md, and E of ma get the error for a flag that
//     does not exist: items have no place for a recache token, a stale mark or a client's token.
//   - Exptimes are exact to the millisecond, not to the second.
//   - The flag l of mg and the field la of me are 0: the cache does not record the last access.
//   - In a cache without tokens (larder.Options.CAS), tokens are 0 and cas stores nothing.
//   - A value is limited by the cache, too: see larder.Options.ItemMax.
//   - A flush_all with a delay removes all items at that time, unless the server ends before.
//   - stats has the statistics of this server, not all of memcached's. The groups are settings,
//     sizes, items and slabs, of which the last two are empty, cachedump and reset.
//
// # Limits
//
// [Options] bounds connections, times and memory. A client costs the memory of the bytes that it
// has sent, not of those that it announces. The value of a hit is copied to the buffer of its
// connection, so that a slow client does not keep the cache's memory in use.
//
// # Soft expiry
//
// With [Options].SoftExpiry, an item that a client stores with flags 0 and an exptime stays
// readable beyond its exptime, and get, gets and their binary forms return flags that say more: 0
// for a fresh item, 3 to the first reader of an expired one, which is to store it anew, and 1 to
// the other readers. A store or a touch makes the item fresh. Items with other flags are not
// affected; flags from 0xe0000000 to 0xefffffff are reserved. The program reads such items without
// a mark; their flags are in this range. [TQMemory] has this rule.
//
// [TQMemory]: https://github.com/mevdschee/tqmemory
package server
