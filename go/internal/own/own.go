// Package own gives packages of this module access to the private parts of a public cache.
package own

import "larder.example/larder/internal/engine"

// EngineOf returns the engine of a *larder.Cache, and nil for another type. Package larder sets it
// when it is initialized; a caller that has a *larder.Cache has therefore imported it. The caller
// must keep the cache reachable while it uses the engine, because the garbage collector closes an
// unreachable cache.
var EngineOf func(cache any) *engine.Engine

// ChangesOf returns a function that a user of the engine of a *larder.Cache must call before each
// change of a key, so that a load in progress of that key does not overwrite the change. The empty
// string means all keys. Without loads in progress the function costs one atomic load.
var ChangesOf func(cache any) func(key string)
