//go:build !larder_heap && !race

package stream

const isKnown = true

// copyLines copies complete lines. dst is the start of a line.
//
//go:noescape
func copyLines(dst, src *byte, lines int)
