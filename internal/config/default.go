package config

import (
	"log/slog"
	"time"
)

// Default returns the configuration of an empty file, which still lacks fleets.
func Default() *Config {
	return &Config{
		Listen:       ":8080",
		Admin:        "127.0.0.1:8081",
		Redis:        Redis{URL: "embedded", Timeout: 250 * time.Millisecond, WaitTimeout: time.Second},
		Replicas:     Replicas{ID: "auto", Heartbeat: 2 * time.Second, Reconcile: 10 * time.Second, Stale: 30 * time.Second},
		Audit:        Audit{Queue: 8192},
		Proxies:      Proxies{Hops: 16, Header: "x-forwarded-for", ProxyProtocol: "off"},
		Drain:        Drain{Delay: 5 * time.Second, Timeout: 20 * time.Second},
		Log:          Log{Level: slog.LevelInfo, Format: "json"},
		Metrics:      Metrics{Tenants: 100},
		Traces:       Traces{Sample: 0.01, Follow: true, Service: "capgate", Queue: 4096, Timeout: 10 * time.Second},
		DNS:          DNS{Resolve: 5 * time.Second},
		Registration: Registration{MinTTL: 5 * time.Second, Max: 10_000, MaxPerCapability: 1000},
		Policies:     Policies{Cache: 100_000, TTL: time.Minute, MaxStale: 10 * time.Minute},
		Identity:     Identity{Cache: 100_000, TTL: time.Minute, MaxStale: 10 * time.Minute},
		Idempotency:  Idempotency{TTL: 24 * time.Hour, MaxAnswer: 64 << 10, MaxKeys: 10_000},
		ClientLimits: defaultClientLimits(),
		Artifacts:    Artifacts{MaxSize: 1 << 30, MaxURLTTL: time.Hour},
		Approvals:    Approvals{TTL: 10 * time.Minute, SessionTTL: time.Hour, MaxPending: 10_000},
	}
}

// DefaultFleet returns a fleet with the defaults, a capability and backends.
func DefaultFleet(capability string, backends ...string) Fleet {
	f := Fleet{
		Capability: capability,
		Deadline:   Deadline{Default: 120 * time.Second, Max: 15 * time.Minute, Stream: time.Hour},
		Health:     Health{Interval: 5 * time.Second, Timeout: time.Second, Jitter: 0.1, Rise: 2, Fall: 2},
		Ejection: Ejection{Failures: 5, ConnectFailures: 1, TimeoutLeast: time.Second, Base: 5 * time.Second,
			Max: 5 * time.Minute},
		Retry:     Retry{Share: 0.1, Floor: 10},
		Affinity:  Affinity{SessionTTL: time.Hour, ArtifactTTL: 24 * time.Hour},
		Discovery: Discovery{Interval: 5 * time.Minute, Timeout: 10 * time.Second},
		Limit:     Limit{Queue: 100, Wait: 10 * time.Second},
		SlowStart: 30 * time.Second,
	}
	for _, addr := range backends {
		f.Backends = append(f.Backends, DefaultBackend(addr))
	}
	return f
}

// DefaultBackend returns a backend with the defaults and an address.
func DefaultBackend(addr string) Backend { return Backend{Addr: addr, Weight: 100} }

// Addrs returns the addresses of the fleet's backends.
func (f *Fleet) Addrs() []string {
	addrs := make([]string, len(f.Backends))
	for i := range f.Backends {
		addrs[i] = f.Backends[i].Addr
	}
	return addrs
}
