package overload

import (
	"io/fs"
	"path"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// processor measures the CPU time that this process got, and that it was denied, as Linux counts it.
//
// Bytes also wait when other processes use the CPUs. That is not this process's overload, and shedding its
// calls does not end it.
type processor struct {
	root  fs.FS    // contains "proc" and "sys"
	quota []string // cpu.stat of its cgroup and of all parents
	cpus  int      // number of usable CPUs
	last  cpuTimes
	known bool // last was read at the last tick
}

// cpuTimes are the CPU times of all threads since the process began.
type cpuTimes struct {
	at        time.Time
	ran       time.Duration
	waited    time.Duration // ready to run, for a CPU
	throttled time.Duration // by the quota of its cgroup
}

func newProcessor(root fs.FS) *processor {
	return &processor{root: root, quota: quotas(root), cpus: runtime.NumCPU()}
}

// ownDelay returns the part of a delay that this process's own work caused. It reads nothing while delays are far
// below most. Where the system gives no data, it returns the whole delay.
func (p *processor) ownDelay(delay, most time.Duration, now time.Time) time.Duration {
	if delay <= most/2 {
		p.known = false
		return delay
	}
	read, ok := p.read(now)
	if !ok {
		return delay
	}
	last, known := p.last, p.known
	p.last, p.known = read, true
	if !known {
		return min(delay, most) // known at the next tick
	}
	return time.Duration(float64(delay) * read.since(last).share(p.cpus))
}

// since returns the difference of two readings. Threads that have ended no longer count.
func (t cpuTimes) since(last cpuTimes) spent {
	return spent{
		wall: t.at.Sub(last.at), ran: max(t.ran-last.ran, 0),
		waited: max(t.waited-last.waited, 0), throttled: max(t.throttled-last.throttled, 0),
	}
}

// spent is the use of an interval.
type spent struct{ wall, ran, waited, throttled time.Duration }

// share returns the part of the interval in which the process itself ran or was throttled by its quota: of the
// time in which its threads were runnable, and at least of the time that passed. A process with all CPUs is
// denied none, however many of its threads wait. waited includes the time throttled.
func (s spent) share(cpus int) float64 {
	if s.wall <= 0 {
		return 0
	}
	throttled := min(s.throttled, s.wall*time.Duration(cpus))
	had := float64(s.ran + throttled)
	denied := float64(max(s.waited-throttled, 0))
	share := had / max(float64(s.wall), had+denied)
	return min(max(share, had/float64(s.wall*time.Duration(cpus))), 1)
}

func (p *processor) read(now time.Time) (t cpuTimes, ok bool) {
	t.at = now
	threads, err := fs.ReadDir(p.root, "proc/self/task")
	if err != nil {
		return t, false
	}
	for _, thread := range threads {
		text, err := fs.ReadFile(p.root, path.Join("proc/self/task", thread.Name(), "schedstat"))
		if err != nil {
			continue // the thread has ended
		}
		if fields := strings.Fields(string(text)); len(fields) >= 2 {
			t.ran += nanoseconds(fields[0])
			t.waited += nanoseconds(fields[1])
			ok = true
		}
	}
	for _, file := range p.quota {
		t.throttled += throttled(p.root, file)
	}
	return t, ok
}

func nanoseconds(text string) time.Duration {
	n, _ := strconv.ParseInt(text, 10, 64) // the kernel writes numbers
	return time.Duration(n)
}

// throttled returns the time for which a cgroup was throttled; 0 without a quota.
func throttled(root fs.FS, file string) time.Duration {
	text, _ := fs.ReadFile(root, file)
	for line := range strings.Lines(string(text)) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name {
		case "throttled_usec":
			return nanoseconds(value) * 1000
		case "throttled_time": // version 1
			return nanoseconds(value)
		}
	}
	return 0
}

// quotas returns the cpu.stat files of the process's cgroup and of all its parents.
func quotas(root fs.FS) (files []string) {
	text, _ := fs.ReadFile(root, "proc/self/cgroup") // without it there is no quota
	for line := range strings.Lines(string(text)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, dir, _ := strings.Cut(rest, ":")
		trees := []string{"sys/fs/cgroup"}
		if controllers != "" {
			if !strings.Contains(","+controllers+",", ",cpu,") {
				continue
			}
			trees = []string{"sys/fs/cgroup/" + controllers, "sys/fs/cgroup/cpu"}
		}
		for _, tree := range trees {
			found := quotasBelow(root, tree, path.Clean("/"+dir))
			if files = append(files, found...); len(found) > 0 {
				break
			}
		}
	}
	return files
}

func quotasBelow(root fs.FS, tree, dir string) (files []string) {
	for ; ; dir = path.Dir(dir) {
		file := path.Join(tree, dir, "cpu.stat")
		if _, err := fs.Stat(root, file); err == nil {
			files = append(files, file)
		}
		if dir == "/" {
			return files
		}
	}
}
