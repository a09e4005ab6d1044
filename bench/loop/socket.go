package loop

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Dial connects to an IPv4 address and returns a non-blocking socket.
func Dial(addr netip.AddrPort) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	if err := connect(fd, addr); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("connect %s: %w", addr, err)
	}
	return fd, nil
}

func connect(fd int, addr netip.AddrPort) error {
	if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: addr.Addr().As4(), Port: int(addr.Port())}); err != nil {
		return err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return err
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
}

// Listen accepts connections on an IPv4 address and returns the address with its actual port. accept creates the
// handler of each connection.
func (l *Loop) Listen(addr netip.AddrPort, accept func() Handler) (netip.AddrPort, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return addr, fmt.Errorf("socket: %w", err)
	}
	l.listener, l.accept = fd, accept
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return addr, err
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: addr.Addr().As4(), Port: int(addr.Port())}); err != nil {
		return addr, fmt.Errorf("bind %s: %w", addr, err)
	}
	if err := unix.Listen(fd, 4096); err != nil {
		return addr, fmt.Errorf("listen %s: %w", addr, err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return addr, err
	}
	got, ok := name.(*unix.SockaddrInet4)
	if !ok {
		return addr, fmt.Errorf("unexpected address type %T", name)
	}
	return netip.AddrPortFrom(netip.AddrFrom4(got.Addr), uint16(got.Port)),
		l.watch(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN)
}

func (l *Loop) acceptOne() error {
	fd, _, err := unix.Accept4(l.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err != nil {
		return nil // the client has left, or descriptors are exhausted: accept is retried
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	h := l.accept()
	c, err := l.Add(fd, h)
	if err != nil {
		return err
	}
	if s, ok := h.(interface{ Attach(*Conn) }); ok {
		s.Attach(c)
	}
	return nil
}
