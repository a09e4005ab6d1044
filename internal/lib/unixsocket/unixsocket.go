// Package unixsocket listens on unix sockets.
package unixsocket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"
)

// socketPatience bounds how long a program may take to accept a connection to a socket that is to be replaced.
const socketPatience = time.Second

// Listen listens on a unix socket with permissions of mode. It replaces the socket of a process that has ended, and
// nothing else. Close removes the file.
func Listen(path string, mode fs.FileMode) (net.Listener, error) {
	if err := removeStale(path); err != nil {
		return nil, err
	}
	// On Linux, the file is created with the permissions of the socket: no other user can connect before Chmod.
	control := func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), uint32(defaultSocketMode)) })
	}
	ln, err := (&net.ListenConfig{Control: control}).Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}

// defaultSocketMode are the permissions of a socket before it gets its own.
const defaultSocketMode fs.FileMode = 0o600

// removeStale removes the socket of a process that has ended. The error says why a file stays.
func removeStale(path string) error {
	found, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case found.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is not a socket, and is not removed; remove it, or name another path", path)
	}
	conn, err := net.DialTimeout("unix", path, socketPatience)
	if err == nil {
		_ = conn.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%s is in use by another program, or cannot be tried (%w); name another path", path,
			unlessNil(err, syscall.EADDRINUSE))
	}
	if now, err := os.Lstat(path); err == nil && !os.SameFile(found, now) {
		return fmt.Errorf("%s is in use: another program has just made it; name another path", path)
	}
	return os.Remove(path)
}

func unlessNil(err, otherwise error) error {
	if err == nil {
		return otherwise
	}
	return err
}
