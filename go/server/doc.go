// Package server serves a cache of the process to memcached clients, on any [net.Listener]. The
// program and the clients use the same cache, so each can read the items that the other stores.
//
//	cache, err := larder.Open(larder.Options{Memory: 256 << 20, CAS: true})
//	...
//	listener, err := net.Listen("tcp", "127.0.0.1:11211")
//	...
//	err = server.New(cache, server.Options{}).Serve(listener)
//
// By default the server neither encrypts nor requires a password: listen on a loopback address, a
// unix socket or a private network, or use [crypto/tls.NewListener] and [Options].Auth.
//
// # Protocols
//
// The first byte of a connection selects the binary protocol, or the text protocol with its meta
// commands. The server responds like memcached 1.6.45, with the differences that docs/protocol.md
// of the repository lists for larderd, and with these additional differences and limits:
//
//   - The commands are get, gets, gat, gats, set, add, replace, append, prepend, cas, incr, decr,
//     touch, delete, flush_all, version, verbosity, stats, quit, lru_crawler metadump and mgdump,
//     mg, ms, md, ma, mn, me with all their flags, and all opcodes of the binary protocol.
//   - An exptime is exact to the millisecond, not to the second.
//   - The flag l of mg, and la of me and metadump, are 0, because the cache does not record the
//     last access.
//   - In a cache without tokens (larder.Options.CAS), tokens are 0, and cas, and ms with C, store
//     nothing.
//   - A client can choose the token of an item with E. The tokens that the server chooses do not
//     depend on these tokens.
//   - The cache also limits the size of a value: see larder.Options.ItemMax.
//   - A flush_all with a delay removes all items at that time, unless the server has ended before.
//   - A client of the meta protocol can mark an item as stale, which means out of date; then one
//     client that reads the item receives its recache token and should store a new value. The mark
//     and the token exist only for clients of the server. larder.Cache.Save skips stale items. A
//     program that reads an item does not receive the mark or the token, and a program that stores
//     an item removes both.
//
// # Statistics
//
// stats returns the statistics of this server; it does not have all of memcached's statistics. The
// groups are settings, conns, detail on, off and dump, cachedump, reset, sizes (which is disabled),
// items (which is empty, because the cache has no size classes) and slabs (with the memory of the
// cache as total_malloced). conns numbers connections in the order in which they began; the numbers
// are not file descriptors. In detail, a prefix ends at a colon; the server counts the first 10000
// prefixes.
//
// # Commands that are not executed
//
//   - The response to cache_memlimit is MEMLIMIT_ADJUST_FAILED: the memory of the cache is fixed.
//   - The response to shutdown is "SERVER_ERROR: shutdown not enabled", as from a memcached without
//     -A: only the program can end the server, with [Server.Shutdown].
//   - The response to watch is "CLIENT_ERROR watch commands not allowed", as from a memcached with
//     -W.
//   - The response to slabs reassign and automove is "CLIENT_ERROR slab reassignment disabled", as
//     from a memcached with -o no_slab_reassign. The response to lru_crawler enable, disable,
//     crawl, sleep and tocrawl is "CLIENT_ERROR lru crawler disabled". The cache has neither size
//     classes nor a crawler. See larder.Options.Sweep.
//   - The response to lru, extstore, refresh_certs, debugtime, debugitem, misbehave and the
//     commands that only larderd has is ERROR, as from a memcached that was built without them.
//     verbosity only changes the value that stats settings shows.
//
// # Login
//
// With [Options].Auth each connection must log in with the protocol that it uses. (memcached serves
// only the text protocol with -Y, and only the binary protocol with -S.)
//
// In the text protocol a client logs in by "set <any key> <flags> <exptime> <bytes>", whose value
// is the user, one or more spaces, and the password. The response is STORED, also with noreply. If
// the login fails, the response is one of these:
//
//   - "CLIENT_ERROR authentication failure" for a wrong user or password,
//   - "CLIENT_ERROR bad authentication token format" for a value of one word,
//   - "CLIENT_ERROR auth token too long" for a value of more than 16384 bytes,
//   - "CLIENT_ERROR bad command line termination" for a value that does not end in a line end.
//
// The response to any other line is "CLIENT_ERROR unauthenticated", also to version and the meta
// commands. A line of less than 6 bytes, or of 2048 bytes without an end, ends the connection. A
// client may try again, and cannot log out. A password may contain spaces, which is not possible in
// memcached's file of users.
//
// In the binary protocol a client logs in by SASL PLAIN, in one step; the authorization identity
// must be empty or the user. The response is "Authenticated", or the status 20 (hexadecimal), after
// which the client may try again. A failed login cancels an earlier login. Before the login, all
// opcodes except version and the SASL opcodes fail with the status 20 and end the connection.
//
// # Limits
//
// [Options] limits connections, times and memory. The server allocates memory for the bytes that a
// client has sent, not for the bytes that it announces. It copies the value of a hit to the buffer
// of the connection, so that a slow client does not keep the cache's memory in use.
//
// # Soft expiry
//
// With [Options].SoftExpiry, an item that a client stores with flags 0 and an exptime stays
// readable beyond its exptime. get, gets and their binary forms then return the state of the item
// in the flags: 0 for a fresh item; 3 to the first client that reads a stale item, which should
// store it again; and 1 to the other clients. A store or a touch makes the item fresh. [TQMemory]
// has this rule.
//
// The same rule applies to stale items in the meta protocol: beyond the exptime of such an item, mg
// shows X, and W to the client that should store it again, and Z to the other clients. The first
// client that reads the item receives W (or the flags 3), whichever protocol it uses. An item that
// md or ms marks stale with I is also stale for get. t and R of mg, and me, use the exptime that
// the client has set.
//
// Items with other flags, items that incr and ma create, and the empty items that mg creates with N
// are not affected. Flags from 0xe0000000 to 0xefffffff are reserved for the server: if a client
// stores them, the response is "CLIENT_ERROR flags from 0xe0000000 to 0xefffffff are reserved for
// soft expiry", or the status 04 in the binary protocol, and the item does not change. The program
// reads items of soft expiry without a mark. Their flags are in this range, and the program must
// not store other items with flags in it.
//
// [TQMemory]: https://github.com/mevdschee/tqmemory
package server
