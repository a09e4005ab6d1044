package upstream

import (
	"net"
	"time"
)

// Dialer returns what connects to backends. A connection whose network is gone ends in 30 s, as TCP finds out without
// the backend's process.
func Dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}
}
