// Package client is a client for memcached and larderd, in Go alone.
//
// It has the methods, fields and errors of gomemcache, so that a program changes its import and goes on; keys stay on
// the servers where they were. Beyond them it speaks the meta protocol where the server does, asks several servers at
// once, can be told to stop waiting, finds servers as libmemcached does, and leaves those out for a while that fail.
//
//	c := client.New("10.0.0.1:11211", "10.0.0.2:11211")
//	err := c.Set(&client.Item{Key: "greeting", Value: []byte("hello")})
//
// [NewWithOptions] has everything that can be chosen.
//
// # Waiting
//
// Every method has a sibling whose name ends in Context and that takes one first. A context that is done ends the wait
// at once: the error is that of the context, and the connection is closed, for an answer to nobody may come on it. The
// time in Client.Timeout holds as well.
//
// # Errors
//
// What a server says about a key are [ErrCacheMiss], [ErrNotStored] and [ErrCASConflict]; they are returned as they
// are. What else goes wrong is a type that says which server it was: a [*ReplyError] is an error that the server tells,
// a [*FaultError] a connection that broke, timed out or carried nonsense, a [*ConnectTimeoutError] one that did not
// come about, and a [*DownError] one that was not even tried.
//
// # A larderd on the same machine
//
// Where a server is named by a unix socket and is a larderd with --local-readers, hits are found in its memory, by package
// reader, without a system call; Client.LocalReads counts them. What is not found there is asked for, and everything else
// goes through the socket. Nothing else changes: an item has its flags and CasID, who has stored an item reads it, and a
// server that is replaced is noticed. The client keeps one more connection to it, and one goroutine. Any other server is
// asked for everything, as is this one with Options.NoLocalReads.
//
// # Costs
//
// A request is one write and mostly one read. A Get that finds something allocates the item and its value; a Set, a
// Delete and a miss allocate nothing, unless a context can be cancelled. GetMulti makes one write a server, and asks
// all servers at the same time.
package client
