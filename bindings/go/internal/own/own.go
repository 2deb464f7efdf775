// Package own lets packages of this module reach the engine of a public cache.
package own

import "larder/internal/engine"

// EngineOf returns the engine of a *larder.Cache, and nil for another type. Package larder sets it
// when it is initialized; a caller that has a *larder.Cache has therefore imported it.
var EngineOf func(cache any) *engine.Engine
