package check

import "runtime/debug"

// Cleanup calls a function when a test has ended, and then drops it with all that it refers to. The testing package
// keeps what a test's own Cleanup gets until the last test of the process has ended.
func Cleanup(t interface{ Cleanup(end func()) }, end func()) {
	t.Cleanup(func() {
		last := end
		end = nil
		last()
	})
}

// BoundMemory has a large test binary collect its garbage early, from 192 MiB on. The race detector's own memory is
// several times that of what is not collected yet, and is not given back. TestMain calls it.
func BoundMemory() { debug.SetMemoryLimit(192 << 20) }
