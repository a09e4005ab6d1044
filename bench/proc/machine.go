package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Busy is the time that all cores together were busy.
type Busy struct {
	Used   time.Duration
	Stolen time.Duration // taken by the hypervisor for other machines
}

// Machine reads /proc/stat.
func Machine() (Busy, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Busy{}, err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return Busy{}, fmt.Errorf("/proc/stat begins with %q", line)
	}
	var ticks [9]int64
	for i := 1; i < len(ticks); i++ {
		if ticks[i], err = strconv.ParseInt(fields[i], 10, 64); err != nil {
			return Busy{}, err
		}
	}
	const user, nice, system, irq, softirq, steal = 1, 2, 3, 6, 7, 8
	used := ticks[user] + ticks[nice] + ticks[system] + ticks[irq] + ticks[softirq]
	return Busy{Used: time.Duration(used) * userTick, Stolen: time.Duration(ticks[steal]) * userTick}, nil
}

// Model returns the name of the processor, or "" if /proc does not have it.
func Model() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
