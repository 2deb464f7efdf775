// Package own lets packages of this module reach what a public cache hides.
package own

import "larder.example/larder/internal/engine"

// EngineOf returns the engine of a *larder.Cache, and nil for another type. Package larder sets it
// when it is initialized; a caller that has a *larder.Cache has therefore imported it. The caller
// keeps the cache reachable while it uses the engine: the garbage collector closes an unreachable
// one.
var EngineOf func(cache any) *engine.Engine

// ChangesOf returns the function that a caller of the engine of a *larder.Cache calls before each
// change of a key, so that a load in progress of that key does not overwrite the change. For the
// empty string it covers all keys. Without loads in progress it costs one atomic load.
var ChangesOf func(cache any) func(key string)
