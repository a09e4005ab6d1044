package proc

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// RSS returns the resident memory of a process and its living descendants in bytes.
func RSS(pid int) (int64, error) {
	total, err := rss(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Rss:")
	if err != nil {
		total, err = rss(fmt.Sprintf("/proc/%d/status", pid), "VmRSS:")
	}
	if err != nil {
		return 0, err
	}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil {
		return 0, err
	}
	for _, child := range children(tasks) {
		if n, err := RSS(child); err == nil {
			total += n
		}
	}
	return total, nil
}

// PeakRSS returns the peak resident memory of a process in bytes, without its descendants.
func PeakRSS(pid int) (int64, error) { return rss(fmt.Sprintf("/proc/%d/status", pid), "VmHWM:") }

func rss(file, label string) (int64, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 2 && fields[0] == label {
			kb, err := strconv.ParseInt(fields[1], 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("%s has no %s", file, label)
}
