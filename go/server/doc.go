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
//     touch, delete, flush_all, version, verbosity, stats, quit, lru_crawler metadump and mgdump,
//     mg, ms, md, ma, mn, me with all their flags, and all opcodes of the binary protocol.
//   - Exptimes are exact to the millisecond, not to the second.
//   - The flag l of mg, and la of me and metadump, are 0: the cache does not record the last
//     access.
//   - In a cache without tokens (larder.Options.CAS), tokens are 0, and cas, and ms with C, store
//     nothing.
//   - The tokens that the server chooses do not depend on those that clients choose with E.
//   - A value is limited by the cache, too: see larder.Options.ItemMax.
//   - A flush_all with a delay removes all items at that time, unless the server ends before.
//   - A stale mark and a recache token belong to the item in memory: larder.Cache.Save leaves stale
//     items out. Reads of the program do not see them; its stores remove them.
//
// # Statistics
//
// stats has the statistics of this server, not all of memcached's. The groups are settings, conns,
// detail on, off and dump, cachedump, reset, sizes (which is disabled), items (which is empty, as
// the cache has no size classes) and slabs (with the memory of the cache as total_malloced). The
// numbers of connections in conns are in the order of their beginning; they are no descriptors.
// Prefixes of detail end at a colon; the first 10000 are counted.
//
// # Commands that are not carried out
//
//   - cache_memlimit gets MEMLIMIT_ADJUST_FAILED: the memory of the cache is fixed.
//   - shutdown gets "SERVER_ERROR: shutdown not enabled", as from a memcached without -A: the
//     program calls [Server.Shutdown].
//   - watch gets "CLIENT_ERROR watch commands not allowed", as with -W.
//   - slabs reassign and automove get "CLIENT_ERROR slab reassignment disabled", as with -o
//     no_slab_reassign, and lru_crawler enable, disable, crawl, sleep and tocrawl get "CLIENT_ERROR
//     lru crawler disabled": the cache has neither size classes nor a crawler. See
//     larder.Options.Sweep.
//   - lru, extstore, refresh_certs, debugtime, debugitem, misbehave and the commands of larderd
//     alone get ERROR, as from a memcached that was built without them. verbosity only changes what
//     stats settings shows.
//
// # Login
//
// With [Options].Auth each connection has to log in, by its own protocol; memcached serves only the
// text protocol with -Y, and only the binary one with -S.
//
// In the text protocol a client logs in by "set <any key> <flags> <exptime> <bytes>", whose value
// is the user, spaces, and the password, and gets STORED, also with noreply. A wrong user or
// password gets "CLIENT_ERROR authentication failure", a value of one word "CLIENT_ERROR bad
// authentication token format", one of more than 16384 bytes "CLIENT_ERROR auth token too long",
// and one that does not end in a line end "CLIENT_ERROR bad command line termination". Any other
// line gets "CLIENT_ERROR unauthenticated", also version and the meta commands; one of less than 6
// bytes, or of 2048 bytes without an end, ends the connection. A client may try again, and cannot
// log out. A password may have spaces inside, which memcached's file of users cannot.
//
// In the binary protocol a client logs in by SASL PLAIN, in one step; an identity has to be empty
// or the user. It gets "Authenticated", or the status 20 (hexadecimal), after which it may try
// again. A failed login ends an earlier one. Before the login, opcodes other than version and those
// of SASL get the status 20 and end the connection.
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
// for a fresh item, 3 to the first reader of a stale one, which is to store it anew, and 1 to the
// other readers. A store or a touch makes the item fresh. [TQMemory] has this rule.
//
// It is the rule of stale items in the meta protocol: mg shows X for such an item beyond its
// exptime, W to the client that is to store it anew, by whichever protocol that has asked first,
// and Z to the others. An item that md or ms marks stale with I is stale for get, too. t and R of
// mg, and me, use the exptime that the client has given.
//
// Items with other flags, those of incr and ma, and the empty ones of mg with N are not affected.
// Flags from 0xe0000000 to 0xefffffff are the server's: a client that stores them gets
// "CLIENT_ERROR flags from 0xe0000000 to 0xefffffff are reserved for soft expiry", in the binary
// protocol the status 04, and the item stays as it was. The program reads items of soft expiry
// without a mark; their flags are in this range, and it must not store others in it.
//
// [TQMemory]: https://github.com/mevdschee/tqmemory
package server
