package server

import (
	"larder/internal/engine"
	"larder/internal/own"
)

// New returns a server of a cache. Closing the server leaves the cache open.
func New(cache any, options Options) *Server {
	if e, ok := cache.(*engine.Engine); ok {
		return newServer(e, options)
	}
	return newServer(own.EngineOf(cache), options)
}
