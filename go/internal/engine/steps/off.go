//go:build !larder_steps

package steps

// At marks a point.
func At(Step) {}
