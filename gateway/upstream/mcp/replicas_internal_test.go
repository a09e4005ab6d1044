package mcp

import (
	"time"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/lib/tokenbucket"
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

// Room ends the least recently used session of the tenant that has sessions at a server.
func Room(of upstream.Backends, capability, url string) {
	v, open := of.(*Servers).Opened(capability, url)
	if !open {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for tenant := range v.tenants {
		v.removeOldest(user{tenant: tenant}, 1)
	}
}

// Drop is the effect of a refused connection.
func Drop(of upstream.Backends, capability, url string) {
	if v, open := of.(*Servers).Opened(capability, url); open {
		v.drop()
	}
}

// UpdatesPace returns the rate limit of all streams of a server that serve callers.
func UpdatesPace(of upstream.Backends, capability, url string) *tokenbucket.Bucket {
	v, open := of.(*Servers).Opened(capability, url)
	if !open {
		return nil
	}
	return v.transport.updates
}
