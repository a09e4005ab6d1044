package check

import "runtime/debug"

// Cleanup calls a function when a test has ended, and then releases everything that it refers to. The testing package
// keeps the functions of a test's own Cleanup until the last test of the process has ended.
func Cleanup(t interface{ Cleanup(end func()) }, end func()) {
	t.Cleanup(func() {
		last := end
		end = nil
		last()
	})
}

// BoundMemory makes a large test binary collect garbage early, from 192 MiB on. The race detector needs several times
// the memory of uncollected objects, and does not return it. TestMain calls BoundMemory.
func BoundMemory() { debug.SetMemoryLimit(192 << 20) }
