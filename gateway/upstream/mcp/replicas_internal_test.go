package mcp

import (
	"time"

	"github.com/capgate/capgate/gateway/upstream"
)

// Age makes the sessions at a server older: the next call there may renew them, or end the unused ones.
func Age(of upstream.Backends, capability, url string, by time.Duration) {
	v, open := of.(*Servers).Opened(capability, url)
	if !open {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.swept = v.swept.Add(-by)
	for _, s := range v.sessions {
		s.used = s.used.Add(-by)
		s.renewed.Add(-int64(by))
	}
}
