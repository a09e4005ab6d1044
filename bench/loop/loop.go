package loop

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"
)

// Handler is a connection's protocol. The loop calls it on its own goroutine.
type Handler interface {
	// Read handles bytes from the peer; p is valid only during the call.
	Read(p []byte) error
	// Output returns the buffer to send, and whether there is more output once it is empty. The loop sends it and
	// truncates it to length 0. The loop also sends what the handler appends meanwhile.
	Output() (out *[]byte, more bool)
	// Closed is called once, when the connection has ended. The error is io.EOF if the peer closed it.
	Closed(err error)
}

// Conn is a socket in a loop.
type Conn struct {
	loop    *Loop
	fd      int
	handler Handler
	sent    int // bytes of the output that have been written
	dirty   bool
	blocked bool // waiting until the socket is writable
	closed  bool
}

// Loop owns its connections. It is not safe for concurrent use.
type Loop struct {
	epoll    int
	listener int
	accept   func() Handler
	timer    int
	tick     func(n uint64)

	conns map[int]*Conn
	dirty []*Conn
	spare []*Conn
	buf   []byte
	ready []unix.EpollEvent
}

const (
	readSize  = 256 << 10 // bytes per read
	maxEvents = 256
)

// New returns an empty loop.
func New() (*Loop, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return &Loop{
		epoll: fd, listener: -1, timer: -1, conns: map[int]*Conn{},
		buf: make([]byte, readSize), ready: make([]unix.EpollEvent, maxEvents),
	}, nil
}

// Close closes all connections without notifying their handlers.
func (l *Loop) Close() {
	for fd := range l.conns {
		_ = unix.Close(fd)
	}
	clear(l.conns)
	for _, fd := range []int{l.listener, l.timer, l.epoll} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// Every calls tick about once per interval, with the number of intervals since the last call. There is one ticker; 0
// stops it.
func (l *Loop) Every(interval time.Duration, tick func(n uint64)) error {
	l.tick = tick
	if l.timer < 0 {
		fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
		if err != nil {
			return fmt.Errorf("timerfd: %w", err)
		}
		l.timer = fd
		if err := l.watch(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN); err != nil {
			return err
		}
	}
	spec := unix.NsecToTimespec(int64(interval))
	return unix.TimerfdSettime(l.timer, 0, &unix.ItimerSpec{Interval: spec, Value: spec}, nil)
}

// Run handles events until the deadline, or until done returns true. If the deadline is zero, there is none.
func (l *Loop) Run(deadline time.Time, done func() bool) error {
	for !done() {
		wait := -1
		if !deadline.IsZero() {
			left := time.Until(deadline)
			if left <= 0 {
				return nil
			}
			wait = int(left/time.Millisecond) + 1
		}
		if len(l.dirty) > 0 {
			wait = 0
		}
		n, err := unix.EpollWait(l.epoll, l.ready, wait)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("epoll_wait: %w", err)
		}
		for i := range max(n, 0) {
			if err := l.event(&l.ready[i]); err != nil {
				return err
			}
		}
		l.flush()
	}
	return nil
}

func (l *Loop) event(e *unix.EpollEvent) error {
	fd := int(e.Fd)
	switch fd {
	case l.timer:
		var count [8]byte
		if n, err := unix.Read(fd, count[:]); err == nil && n == len(count) {
			l.tick(binary.NativeEndian.Uint64(count[:]))
		}
		return nil
	case l.listener:
		return l.acceptOne()
	}
	c := l.conns[fd]
	if c == nil {
		return nil
	}
	if e.Events&unix.EPOLLOUT != 0 {
		c.blocked = false
		_ = l.watch(unix.EPOLL_CTL_MOD, fd, unix.EPOLLIN)
		c.Flush()
	}
	if e.Events&^unix.EPOLLOUT != 0 {
		c.read()
	}
	return nil
}

func (l *Loop) watch(op, fd int, events uint32) error {
	if err := unix.EpollCtl(l.epoll, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

// flush writes once to every dirty connection. Connections with more output stay dirty.
func (l *Loop) flush() {
	l.dirty, l.spare = l.spare[:0], l.dirty
	for _, c := range l.spare {
		c.dirty = false
		c.write()
	}
}

// Add adds a connected, non-blocking socket. The loop owns it from now on.
func (l *Loop) Add(fd int, h Handler) (*Conn, error) {
	if err := l.watch(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	c := &Conn{loop: l, fd: fd, handler: h}
	l.conns[fd] = c
	c.Flush()
	return c, nil
}

// Flush schedules a write of the handler's Output at the end of this wake-up.
func (c *Conn) Flush() {
	if !c.dirty && !c.blocked && !c.closed {
		c.dirty = true
		c.loop.dirty = append(c.loop.dirty, c)
	}
}

func (c *Conn) read() {
	n, err := unix.Read(c.fd, c.loop.buf)
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return
	case err != nil:
	case n == 0:
		err = io.EOF
	default:
		err = c.handler.Read(c.loop.buf[:n])
	}
	if err != nil {
		c.Close(err)
		return
	}
	c.Flush()
}

func (c *Conn) write() {
	if c.closed || c.blocked {
		return
	}
	out, more := c.handler.Output()
	if len(*out) == c.sent {
		return
	}
	n, err := unix.Write(c.fd, (*out)[c.sent:])
	if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
		c.Close(err)
		return
	}
	c.sent += max(n, 0)
	if c.sent < len(*out) {
		c.blocked = true
		_ = c.loop.watch(unix.EPOLL_CTL_MOD, c.fd, unix.EPOLLIN|unix.EPOLLOUT)
		return
	}
	*out, c.sent = (*out)[:0], 0
	if more {
		c.Flush()
	}
}

// Close ends the connection and notifies its handler.
func (c *Conn) Close(err error) {
	if c.closed {
		return
	}
	c.closed = true
	delete(c.loop.conns, c.fd)
	_ = unix.Close(c.fd)
	c.handler.Closed(err)
}
