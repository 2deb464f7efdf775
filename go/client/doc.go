// Package client is a client for memcached and larderd in pure Go.
//
// It has the methods, fields and errors of gomemcache: a program changes only the import, and each
// key stays on its server. In addition it supports the meta protocol, contexts, parallel requests
// to several servers, libmemcached's key distribution, and backoff from failed servers.
//
//	c := client.New("10.0.0.1:11211", "10.0.0.2:11211")
//	err := c.Set(&client.Item{Key: "greeting", Value: []byte("hello")})
//
// [NewWithOptions] accepts all options.
//
// Beyond gomemcache's methods, [Client.Incr] and [Client.Decr] count from an initial value,
// [Client.Update] repeats a change until no other client has changed the item, [Client.Stats]
// returns the statistics of the servers, and [Client.AuthPlain] logs in. Package wire sends and
// receives single messages.
//
// # Contexts
//
// Every method of gomemcache has a variant whose name ends in Context and that takes a context.
// When the context ends, the method immediately returns its error and closes the connection,
// because the response may still arrive on it. Client.Timeout applies as well.
//
// # Errors
//
// The outcomes [ErrCacheMiss], [ErrNotStored] and [ErrCASConflict] are returned unwrapped. All
// other errors have a type that names the server: [*ReplyError] is an error line of the server,
// [*FaultError] means that a connection broke, timed out or received invalid data,
// [*ConnectTimeoutError] means that a connection was not established in time, and [*DownError]
// means that a request was not sent because the server is in backoff.
//
// # Local reads
//
// If a server address is a unix socket of a larderd with --local-readers, the client reads hits in
// the server's memory, through package reader, without a system call; Client.LocalReads counts
// them. Misses and all other requests go through the socket. The semantics do not change: items
// have their flags and CasID, a client reads its own writes, and the client detects a replaced
// server. It uses one more connection to that server, and one goroutine. All requests to other
// servers go through the socket; Options.NoLocalReads disables local reads.
//
// # Costs
//
// A request takes one write and usually one read. A hit allocates the item and its value; a Set, a
// Delete and a miss do not allocate, unless the context can be cancelled. GetMulti takes one write
// per server and sends to all servers in parallel.
package client
