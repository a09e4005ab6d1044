package upstream

import (
	"net"
	"time"
)

// Dialer returns the dialer for connections to backends. TCP keepalives, which do not involve the backend's process,
// end a connection within 30 s of a network failure.
func Dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}
}
