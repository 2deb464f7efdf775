//go:build !(linux && cgo)

// Package larder needs Linux and cgo. Elsewhere larder/client asks a server, and builds everywhere.
package larder

// The compiler shows this text in its error.
const _ int = "package larder, and larder/bigcache on it, need Linux and cgo: set CGO_ENABLED=1 and have a C compiler, or keep the import behind a build constraint; larder/client and larder/client/wire build everywhere"
