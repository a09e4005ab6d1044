package main

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// memoryLimit is how many bytes the process may have: what GOMEMLIMIT says, its cgroup, or the
// machine, whichever is least; 0 if nobody says.
func memoryLimit(root fs.FS, told int64) int64 {
	least := int64(math.MaxInt64)
	for _, n := range append(cgroupLimits(root), told, machineMemory(root)) {
		if n > 0 {
			least = min(least, n)
		}
	}
	if least >= 1<<60 { // how some of them say that there is none
		return 0
	}
	return least
}

// cgroupLimits are those of the process' cgroup and of all around it. A container sees its own
// as the root, whatever its name is outside.
func cgroupLimits(root fs.FS) (limits []int64) {
	text, _ := fs.ReadFile(root, "proc/self/cgroup") // without it there is no limit
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
			n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max" is none
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
