package server

import (
	"larder"
	"larder/internal/own"
)

// New returns a server of a cache. Closing one of them leaves the other open.
func New(cache *larder.Cache, options Options) *Server {
	s := newServer(own.EngineOf(cache), options)
	s.cache, s.change = cache, own.ChangesOf(cache)
	return s
}
