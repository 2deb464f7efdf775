//go:build larder_steps

package steps

import "sync/atomic"

var hook atomic.Pointer[func(Step)]

// At marks a point and calls the hook, if one is set.
func At(step Step) {
	if run := hook.Load(); run != nil {
		(*run)(step)
	}
}

// Set sets the hook; nil removes it. It is global: tests that set it must not run in parallel.
func Set(run func(Step)) {
	if run == nil {
		hook.Store(nil)
		return
	}
	hook.Store(&run)
}
