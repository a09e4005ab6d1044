package load

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capgate/capgate/bench/loop"
	"github.com/capgate/capgate/bench/proc"
)

// run is one window.
type run struct {
	cfg      Config
	loop     *loop.Loop
	requests *requests
	clients  []caller
	turn     int // Open: index of the next client

	inflight  int
	answered  int   // calls that received the start of their first message
	calls     int64 // successful calls
	bytes     int64
	errors    int64
	problem   string
	lost      error // fatal error
	measuring bool
	stopping  bool
	latencies []time.Duration
	refused   int64
	late      uint64 // Open: calls that could not start because too many were in flight
}

const (
	maxLatencies = 1 << 18 // samples
	maxBad       = 1000    // failed calls that end the run
	patience     = 20 * time.Second
	drainTime    = 5 * time.Second
	maxOpen      = 20000 // calls in flight in open loops
)

// Run runs one window. It returns an error if there is no result. A Result with Problem is one in which some calls
// failed.
func Run(cfg Config) (Result, error) {
	cfg.setDefaults()
	if cfg.Mode == Handshakes {
		return runHandshakes(cfg)
	}
	if cfg.JSON != nil && cfg.Mode != Closed && cfg.Mode != Open {
		return Result{}, errors.New("JSON requests are for closed and open loops")
	}
	if err := cfg.Turn.take(cfg.TLS); err != nil {
		return Result{}, err
	}
	l, err := loop.New()
	if err != nil {
		return Result{}, err
	}
	defer l.Close()
	r := &run{cfg: cfg, loop: l, latencies: make([]time.Duration, 0, maxLatencies)}
	r.requests = newRequests(&r.cfg)
	var res Result
	if (cfg.Mode == Hold || cfg.Mode == Idle) && cfg.Proxy != 0 {
		if res.RSSBefore, err = proc.RSS(cfg.Proxy); err != nil {
			return res, err
		}
	}
	for range cfg.Conns {
		if _, err := r.connect(); err != nil {
			return res, err
		}
	}
	if err := r.begin(&res); err != nil {
		return res, err
	}
	if err := r.wait(cfg.Warm, r.never); err != nil {
		return res, err
	}
	if err := r.measure(&res); err != nil {
		return res, err
	}
	r.drain()
	res.Total, res.Errors, res.Problem = r.calls, r.errors, r.problem
	res.Refused = r.refused
	if r.late > 0 && !cfg.Flood {
		res.Problem = fmt.Sprintf("%d calls could not start in time %s", r.late, res.Problem)
	}
	return res, nil
}

// take sets the scheduling priority of all current threads of the process, which later threads inherit. With several
// busy threads, First does not use a real-time policy: Go's threads wait for each other by spinning.
func (t Turn) take(several bool) error {
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr}
	switch t {
	case Last:
		attr.Policy = unix.SCHED_IDLE
	case First:
		if attr.Nice = -20; !several {
			attr.Policy, attr.Priority = unix.SCHED_FIFO, 1
		}
	default:
		return nil
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, thread := range threads {
		tid, err := strconv.Atoi(thread.Name())
		if err != nil {
			return err
		}
		if err := unix.SchedSetAttr(tid, &attr, 0); err != nil {
			return fmt.Errorf("sched_setattr: %w", err)
		}
	}
	return nil
}

// connect adds a connection and waits for the peer's SETTINGS.
func (r *run) connect() (caller, error) {
	fd, err := r.cfg.dial()
	if err != nil {
		return nil, err
	}
	c := newCaller(r)
	socket, err := r.loop.Add(fd, c)
	if err != nil {
		return nil, err
	}
	c.attach(socket)
	settled := func() bool { _, ok := c.settled(); return ok }
	if err := r.wait(patience, settled); err != nil {
		return nil, err
	}
	if !settled() {
		return nil, errors.New("no SETTINGS received")
	}
	r.clients = append(r.clients, c)
	return c, nil
}

// begin starts the calls.
func (r *run) begin(res *Result) error {
	switch r.cfg.Mode {
	case Closed:
		for _, c := range r.clients {
			for range c.limit() {
				c.start(time.Now())
			}
		}
		return nil
	case Open:
		return r.loop.Every(time.Second/time.Duration(r.cfg.Rate), r.tick)
	case Hold:
		return r.hold(res)
	case Idle:
		return r.idle(res)
	}
	return fmt.Errorf("unknown mode %q", r.cfg.Mode)
}

// hold opens the streams that stay open, on as many connections as they need, and waits until each has received a
// message.
func (r *run) hold(res *Result) error {
	share := max(1, r.cfg.Held/r.cfg.Conns)
	for opened := 0; opened < r.cfg.Held; {
		c := slices.MinFunc(r.clients, func(a, b caller) int { return a.open() - b.open() })
		if c.open() >= c.limit() {
			var err error
			if c, err = r.connect(); err != nil {
				return err
			}
		}
		for range min(c.limit()-c.open(), r.cfg.Held-opened, share) {
			c.start(time.Now())
			opened++
		}
		// Opening thousands at once would measure buffers that grew for the burst.
		const batch = 500
		if err := r.wait(patience, func() bool { return r.answered > opened-batch }); err != nil {
			return err
		}
	}
	if err := r.wait(patience, func() bool { return r.answered >= r.cfg.Held }); err != nil {
		return err
	}
	res.Opened = r.answered
	return r.settle(res)
}

// idle makes one call on each connection, one after the other, and reads the memory afterwards.
func (r *run) idle(res *Result) error {
	for i, c := range r.clients {
		c.start(time.Now())
		if err := r.wait(patience, func() bool { return r.calls > int64(i) }); err != nil {
			return err
		}
		if r.calls <= int64(i) {
			return errors.New("a call timed out")
		}
	}
	return r.settle(res)
}

// settle waits for the settling time, then reads the proxy's memory.
func (r *run) settle(res *Result) error {
	if err := r.wait(r.cfg.Settle, r.never); err != nil {
		return err
	}
	res.OpenedConns = len(r.clients)
	if r.cfg.Proxy == 0 {
		return nil
	}
	var err error
	res.RSSOpened, err = proc.RSS(r.cfg.Proxy)
	return err
}

func (r *run) tick(n uint64) {
	now := time.Now()
	for range n {
		if r.stopping {
			return
		}
		if c := r.free(); c != nil {
			c.start(now)
		} else {
			r.late++
		}
	}
}

// free returns the next connection that may start another call, or nil.
func (r *run) free() caller {
	if r.inflight >= maxOpen {
		return nil
	}
	for range r.clients {
		r.turn++
		c := r.clients[r.turn%len(r.clients)]
		if limit, _ := c.settled(); c.open() < int(limit) {
			return c
		}
	}
	return nil
}

// measure runs the measured part of the window.
func (r *run) measure(res *Result) error {
	before, err := r.cfg.usage()
	if err != nil {
		return err
	}
	calls, bytes, start := r.calls, r.bytes, time.Now()
	r.measuring = true
	if err := r.wait(r.cfg.Window, r.never); err != nil {
		return err
	}
	r.measuring = false
	res.Seconds = time.Since(start).Seconds()
	res.Calls, res.Bytes = r.calls-calls, r.bytes-bytes
	if up := r.requests.uploaded(); up > 0 {
		res.Bytes = res.Calls * up
	}
	after, err := r.cfg.usage()
	if err != nil {
		return err
	}
	res.used(before, after)
	res.waited(r.latencies)
	return nil
}

func (res *Result) used(before, after usage) {
	res.ProxyCPU = after.proxy - before.proxy
	res.BackendCPU = after.backend - before.backend
	res.LoadCPU = after.load - before.load
	res.OtherCPU = max(0, after.machine.Used-before.machine.Used-res.ProxyCPU-res.BackendCPU-res.LoadCPU)
	res.Stolen = after.machine.Stolen - before.machine.Stolen
}

func (res *Result) waited(latencies []time.Duration) {
	slices.Sort(latencies)
	if n := len(latencies); n > 0 {
		res.P50, res.P99, res.P999 = latencies[n/2], latencies[n*99/100], latencies[n*999/1000]
	}
}

// drain waits for calls in flight, so that the next window starts with an idle proxy.
func (r *run) drain() {
	r.stopping = true
	if r.cfg.Mode == Hold || r.cfg.Mode == Idle {
		return // closing the connections ends the streams
	}
	_ = r.wait(drainTime, func() bool { return r.inflight == 0 })
}

func (r *run) never() bool { return false }

// wait runs the loop for d or until done, and returns an error if the run cannot continue.
func (r *run) wait(d time.Duration, done func() bool) error {
	if err := r.loop.Run(time.Now().Add(d), func() bool { return r.lost != nil || done() }); err != nil {
		return err
	}
	return r.lost
}

func (r *run) done(d time.Duration) {
	r.calls++
	if r.measuring && len(r.latencies) < cap(r.latencies) {
		r.latencies = append(r.latencies, d)
	}
}

// rejected counts a response with a status other than 200, which a flood expects.
func (r *run) rejected(what string) {
	if r.cfg.Flood {
		r.refused++
		return
	}
	r.bad(what)
}

func (r *run) bad(what string) {
	r.errors++
	if r.problem == "" {
		r.problem = what
	}
	if r.errors > maxBad {
		r.fail(fmt.Errorf("%d calls failed, the first: %s", r.errors, r.problem))
	}
}

func (r *run) fail(err error) {
	if r.lost == nil {
		r.lost = err
	}
}

// usage is the processor time used so far.
type usage struct {
	proxy, backend, load time.Duration
	machine              proc.Busy
}

func (c *Config) usage() (u usage, err error) {
	read := func(pid int, to *time.Duration) {
		if pid != 0 && err == nil {
			*to, err = proc.CPU(pid)
		}
	}
	read(c.Proxy, &u.proxy)
	read(c.Backend, &u.backend)
	read(os.Getpid(), &u.load)
	if err == nil {
		u.machine, err = proc.Machine()
	}
	return u, err
}
