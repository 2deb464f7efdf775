//go:build !(linux && cgo)

// Package shared requires Linux and cgo. The package larder/client builds on all systems.
package shared

// The compiler prints this text in its error.
const _ int = "package larder/shared, and larder/bigcache on top of it, require Linux and cgo: set CGO_ENABLED=1 and install a C compiler, or put the import behind a build constraint; larder/client and larder/wire build on all systems"
