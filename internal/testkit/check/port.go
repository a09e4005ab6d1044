package check

import (
	"net"
	"net/netip"
	"syscall"
)

// ClosedPort returns an address of this machine that refuses connections, except while a listener of net.Listen uses
// it. The port is bound until the test ends, so that no listener on port 0 and no connection gets it.
func ClosedPort(t interface {
	TB
	Cleanup(end func())
}) (addr string) {
	t.Helper()
	syscall.ForkLock.RLock() // as not all systems have SOCK_CLOEXEC
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	Must(t, err)
	Cleanup(t, func() { _ = syscall.Close(fd) })
	Must(t, syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)) // net.Listen sets it, too
	Must(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := syscall.Getsockname(fd)
	Must(t, err)
	at, ok := name.(*syscall.SockaddrInet4)
	if !ok {
		t.Fatalf("address %v", name)
	}
	return netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port)).String()
}

// Listen listens on a port that refuses connections after the listener has closed, and that stays reserved until the
// test ends.
func Listen(t interface {
	TB
	Cleanup(end func())
}) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", ClosedPort(t))
	Must(t, err)
	return ln
}
