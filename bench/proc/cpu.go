package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// CPU returns the processor time, user and system, of a process and its living descendants. It does not include threads
// and children that have ended.
func CPU(pid int) (time.Duration, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(tasks) == 0 {
		return 0, fmt.Errorf("process %d has ended", pid)
	}
	var total time.Duration
	for _, task := range tasks {
		d, err := taskCPU(task)
		if os.IsNotExist(err) {
			continue // the thread has ended
		}
		if err != nil {
			return 0, err
		}
		total += d
	}
	for _, child := range children(tasks) {
		if d, err := CPU(child); err == nil {
			total += d
		}
	}
	return total, nil
}

// taskCPU prefers schedstat, which counts nanoseconds, to stat, which counts ticks.
func taskCPU(task string) (time.Duration, error) {
	b, err := os.ReadFile(task + "/schedstat")
	if os.IsNotExist(err) {
		return statCPU(task)
	}
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b))
	if len(fields) == 0 {
		return 0, fmt.Errorf("%s/schedstat is empty", task)
	}
	ns, err := strconv.ParseInt(fields[0], 10, 64)
	return time.Duration(ns), err
}

// userTick is USER_HZ: 100 on every Linux that Go runs on.
const userTick = 10 * time.Millisecond

func statCPU(task string) (time.Duration, error) {
	b, err := os.ReadFile(task + "/stat")
	if err != nil {
		return 0, err
	}
	// The name in parentheses may contain any character, so fields are counted from its end.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	const utime, stime = 11, 12
	if len(fields) <= stime {
		return 0, fmt.Errorf("%s/stat is short", task)
	}
	u, err1 := strconv.ParseInt(fields[utime], 10, 64)
	s, err2 := strconv.ParseInt(fields[stime], 10, 64)
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("%s/stat is malformed", task)
	}
	return time.Duration(u+s) * userTick, nil
}

func children(tasks []string) []int {
	var pids []int
	for _, task := range tasks {
		b, err := os.ReadFile(task + "/children")
		if err != nil {
			continue
		}
		for f := range strings.FieldsSeq(string(b)) {
			if pid, err := strconv.Atoi(f); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
