//go:build !larder_debug

package larder

const isDebug = false
