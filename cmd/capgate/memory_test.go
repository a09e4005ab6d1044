package main

import (
	"math"
	"testing"
	"testing/fstest"
)

// TestMemoryLimit: a service of systemd is bounded by its own cgroup or its slice, a container by
// what it sees as the root.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	const machine = "MemTotal:        8388608 kB\nMemFree:  1 kB\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"nobody says":             {nil, 0},
		"the machine":             {map[string]string{"proc/meminfo": machine}, 8 << 30},
		"a service":               {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/system.slice/capgate.service\n", "sys/fs/cgroup/system.slice/capgate.service/memory.max": "1073741824\n"}, 1 << 30},
		"its slice":               {map[string]string{"proc/self/cgroup": "0::/a.slice/b.service\n", "sys/fs/cgroup/a.slice/b.service/memory.max": "max\n", "sys/fs/cgroup/a.slice/memory.max": "4096\n"}, 4096},
		"a container":             {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "4096\n"}, 4096},
		"its name outside":        {map[string]string{"proc/self/cgroup": "0::/../kubepods/pod1\n", "sys/fs/cgroup/memory.max": "4096\n"}, 4096},
		"version 1":               {map[string]string{"proc/self/cgroup": "5:devices:/d\n4:memory:/docker/c1\n0::/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "4096\n"}, 4096},
		"version 1 without one":   {map[string]string{"proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
		"more than what is there": {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1099511627776\n"}, 8 << 30},
	} {
		root := fstest.MapFS{}
		for file, text := range test.files {
			root[file] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := memoryLimit(root, math.MaxInt64); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}
