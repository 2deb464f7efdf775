//go:build linux && cgo && larder_system

package shared

// With the tag larder_system the package links the library that is installed, for example that of
// the Debian package liblarder-dev.

// #cgo pkg-config: larder
import "C"
