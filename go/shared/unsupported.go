//go:build !(linux && cgo)

// Package shared requires Linux and cgo. Package larder builds on all systems.
package shared

// The compiler prints this text in its error.
const _ int = "package larder/shared requires Linux and cgo: set CGO_ENABLED=1 and install a C compiler, or put the import behind a build constraint; package larder and the others of its module build on all systems"
