package gatewaytest

import (
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// Refusing is an address where connections are refused, until the test ends.
func Refusing(t testing.TB) string { return NewClosedPort(t).Addr }

// ClosedPort is a port where connections are refused until Listen. It is bound, so that no other process gets it, but
// nothing listens there.
type ClosedPort struct {
	Addr string
	fd   int
}

// NewClosedPort binds a port until the test ends.
func NewClosedPort(t testing.TB) *ClosedPort {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	check.Must(t, err)
	check.Cleanup(t, func() { _ = syscall.Close(fd) })
	check.Must(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := syscall.Getsockname(fd)
	check.Must(t, err)
	at, ok := name.(*syscall.SockaddrInet4)
	if !ok {
		t.Fatalf("address %v", name)
	}
	return &ClosedPort{netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port)).String(), fd}
}

// Listen opens the port. The caller closes the listener.
func (p *ClosedPort) Listen(t testing.TB) net.Listener {
	t.Helper()
	fd, err := syscall.Dup(p.fd)
	check.Must(t, err)
	check.Must(t, syscall.Listen(fd, syscall.SOMAXCONN))
	file := os.NewFile(uintptr(fd), p.Addr)
	defer func() { _ = file.Close() }()
	ln, err := net.FileListener(file)
	check.Must(t, err)
	return ln
}

// Deaf is an address where connections are taken, and nothing is ever said.
func Deaf(t testing.TB) string {
	t.Helper()
	ln := listen(t)
	check.Cleanup(t, func() { _ = ln.Close() })
	return ln.Addr().String()
}
