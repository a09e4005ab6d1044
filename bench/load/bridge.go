package load

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/capgate/capgate/bench/loop"
)

// dial connects to the target.
func (c *Config) dial() (int, error) {
	if c.TLS {
		return dialTLS(c)
	}
	return loop.Dial(c.Target)
}

// dialTLS connects over TLS and returns a local socket that carries the cleartext,
// so that the loop sees a socket like any other. Two goroutines move the bytes
// until one side closes.
func dialTLS(cfg *Config) (int, error) {
	conn, err := tls.Dial("tcp", cfg.Target.String(), clientTLS())
	if err != nil {
		return -1, fmt.Errorf("TLS: %w", err)
	}
	size := 64 << 10
	if cfg.Mode == Idle {
		size = 2 << 10 // per connection, of which there may be thousands
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		_ = conn.Close()
		return -1, fmt.Errorf("socketpair: %w", err)
	}
	file := os.NewFile(uintptr(pair[1]), "bridge")
	inner, err := net.FileConn(file)
	_ = file.Close()
	if err != nil {
		_ = conn.Close()
		_ = unix.Close(pair[0])
		return -1, fmt.Errorf("bridge: %w", err)
	}
	move := func(to, from net.Conn) {
		_, _ = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, size))
		_ = to.Close()
		_ = from.Close()
	}
	go move(conn, inner)
	go move(inner, conn)
	return pair[0], nil
}
