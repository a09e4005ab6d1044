// Package memlimit finds the memory that a process may use.
package memlimit

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// Bytes returns the memory of the process in bytes: the least of GOMEMLIMIT, its cgroup's limit and the
// machine's memory; 0 if unknown.
func Bytes(root fs.FS, told int64) int64 {
	least := int64(math.MaxInt64)
	for _, n := range append(cgroupLimits(root), told, machineMemory(root)) {
		if n > 0 {
			least = min(least, n)
		}
	}
	if least >= 1<<60 { // some cgroups' value for "no limit"
		return 0
	}
	return least
}

// cgroupLimits returns the limits of the process' cgroup and of its ancestors. A container sees its own cgroup as
// the root.
func cgroupLimits(root fs.FS) (limits []int64) {
	text, _ := fs.ReadFile(root, "proc/self/cgroup") // no such file: no limit
	for line := range strings.Lines(string(text)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, dir, _ := strings.Cut(rest, ":")
		tree, file := "sys/fs/cgroup", "memory.max"
		if controllers == "memory" {
			tree, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes" // version 1
		} else if controllers != "" {
			continue
		}
		for dir = path.Clean("/" + dir); ; dir = path.Dir(dir) {
			text, _ := fs.ReadFile(root, path.Join(tree, dir, file))
			n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max": no limit
			limits = append(limits, n)
			if dir == "/" {
				break
			}
		}
	}
	return limits
}

func machineMemory(root fs.FS) int64 {
	text, _ := fs.ReadFile(root, "proc/meminfo")
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10
		}
	}
	return 0
}
