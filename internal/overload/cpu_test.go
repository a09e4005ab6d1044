package overload_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/testkit/check"
)

// machine simulates Linux' data about a process.
type machine struct {
	fstest.MapFS
	threads [][2]time.Duration // each ran, and waited
	now     time.Time
}

func newMachine(threads int) *machine {
	m := &machine{MapFS: fstest.MapFS{}, threads: make([][2]time.Duration, threads), now: time.Unix(1, 0)}
	m.write("proc/self/cgroup", "0::/pod/box\n")
	m.spend(0, 0, 0)
	return m
}

func (m *machine) write(name, text string) { m.MapFS[name] = &fstest.MapFile{Data: []byte(text)} }

// spend has so much time pass, in which each thread ran and waited.
func (m *machine) spend(wall, ran, waited time.Duration) {
	m.now = m.now.Add(wall)
	for i := range m.threads {
		m.threads[i][0] += ran
		m.threads[i][1] += waited
		m.write(fmt.Sprintf("proc/self/task/%d/schedstat", 100+i),
			fmt.Sprintf("%d %d 7\n", m.threads[i][0].Nanoseconds(), m.threads[i][1].Nanoseconds()))
	}
}

// TestWhoseDelay: what bytes waited is the process's own as far as it ran meanwhile, or would have had its own quota
// allowed it, and not as far as others had the processors.
func TestWhoseDelay(t *testing.T) {
	t.Parallel()
	const most, delay = 10 * time.Millisecond, 30 * time.Millisecond
	for name, test := range map[string]struct {
		threads     int
		ran, waited time.Duration // each thread, in 20 ms
		quota       string        // what a cgroup says then
		file        string
		want        time.Duration
	}{
		"all processors": {threads: 2, ran: 20 * time.Millisecond, want: delay},
		"all processors, and threads wait": {
			threads: 8, ran: 5 * time.Millisecond, waited: 15 * time.Millisecond, want: delay,
		},
		"one processor, the other is idle": {threads: 1, ran: 20 * time.Millisecond, want: delay},
		"one hundredth, the rest is others'": {
			threads: 1, ran: 200 * time.Microsecond, waited: 19800 * time.Microsecond, want: 300 * time.Microsecond,
		},
		"a third, the rest is others'": {
			threads: 2, ran: 5 * time.Millisecond, waited: 10 * time.Millisecond, want: 10 * time.Millisecond,
		},
		"it did nothing":                      {threads: 3, want: 0},
		"it was stopped nearly all the while": {threads: 2, ran: 200 * time.Microsecond, want: 600 * time.Microsecond},
		"its own quota": {threads: 1, ran: 2 * time.Millisecond, waited: 18 * time.Millisecond, want: delay,
			file: "sys/fs/cgroup/pod/box/cpu.stat", quota: "nr_throttled 3\nthrottled_usec 18000\n"},
		"its pod's quota": {threads: 1, ran: 2 * time.Millisecond, waited: 18 * time.Millisecond, want: delay,
			file: "sys/fs/cgroup/pod/cpu.stat", quota: "throttled_usec 18000\n"},
		"a quota of version 1": {threads: 1, ran: 2 * time.Millisecond, waited: 18 * time.Millisecond, want: delay,
			file: "sys/fs/cgroup/cpu,cpuacct/pod/box/cpu.stat", quota: "throttled_time 18000000\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(test.threads)
			m.write("proc/self/cgroup", "0::/pod/box\n4:cpu,cpuacct:/pod/box\n3:memory:/other\n")
			if test.file != "" {
				m.write(test.file, "")
			}
			own := overload.Processor(m, 2)
			if got := own(delay, most, m.now); got != most {
				t.Errorf("before anything is known: %v", got)
			}
			m.spend(20*time.Millisecond, test.ran, test.waited)
			if test.file != "" {
				m.write(test.file, test.quota)
			}
			if got := own(delay, most, m.now); (got - test.want).Abs() > time.Microsecond {
				t.Errorf("%v of %v, want %v", got, delay, test.want)
			}
			if got := own(most/2, most, m.now); got != most/2 {
				t.Errorf("a short delay became %v", got)
			}
			m.spend(time.Hour, 0, 0)
			if got := own(delay, most, m.now); got != most {
				t.Errorf("after a time without delays: %v", got)
			}
		})
	}
}

// TestWhereNothingIsTold all of a delay counts.
func TestWhereNothingIsTold(t *testing.T) {
	t.Parallel()
	own := overload.Processor(fstest.MapFS{}, 2)
	for range 3 {
		if got := own(time.Second, time.Millisecond, time.Now()); got != time.Second {
			t.Errorf("%v", got)
		}
	}
}

// TestDelayByOthers: bytes wait for their turn while the process hardly runs, as they do when others have the
// processors
// or it is stopped. However many calls come, none is turned away. No other test runs beside this one: its work
// would be
// the process's own.
func TestDelayByOthers(t *testing.T) {
	const most, delay = 10 * time.Millisecond, 50 * time.Millisecond
	s := overload.New(overload.Config{MaxDelay: most})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer check.Ended(t, &running, "the background work to end")
	defer stop()
	var turns atomic.Int64
	running.Go(func() {
		if err := s.Watch(ctx, func() { <-time.After(delay); turns.Add(1) }); err != nil {
			t.Error(err)
		}
	})
	came, refused := 0, 0
	check.Holds(t, "30 turns", func() bool {
		for range 50 {
			came++
			if share, v := s.Admit("acme"); v == overload.Admitted {
				share.Done()
			} else {
				refused++
			}
		}
		return turns.Load() >= 30
	})
	if refused > 0 {
		t.Errorf("%d of %d calls were turned away", refused, came)
	}
}

// TestOwnWorkIsSeen: a process that is busy with nothing but its own work sees that bytes wait for it.
func TestOwnWorkIsSeen(t *testing.T) {
	t.Parallel()
	s := overload.New(overload.Config{MaxDelay: 10 * time.Millisecond})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer check.Ended(t, &running, "the background work to end")
	defer stop()
	running.Go(func() {
		if err := s.Watch(ctx, func() {}); err != nil {
			t.Error(err)
		}
	})
	var work atomic.Int64
	for range 200 { // each is run for 10 ms at a time
		running.Go(func() {
			for ctx.Err() == nil {
				work.Add(1)
			}
		})
	}
	check.Until(t, "a delay", func() (bool, string) {
		u := s.Usage()
		return u.Delay > 1, fmt.Sprintf("%+v", u)
	})
}
