//go:build linux && cgo && larder_system

package shared

// With the tag larder_system the package links the installed library, for example the library of
// the Debian package liblarder-dev.

// #cgo pkg-config: larder
import "C"
