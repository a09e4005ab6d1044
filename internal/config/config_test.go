package config_test

import (
	"log/slog"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/builtin/signing"
	"github.com/capgate/capgate/gateway/filter/open"
	"github.com/capgate/capgate/gateway/frontdoor/cors"
	"github.com/capgate/capgate/gateway/frontdoor/files"
	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/gateway/relay/accept"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/history"
	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/lib/tlsfiles"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/recent"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/registry/kubernetes"
	"github.com/capgate/capgate/internal/registry/sources"
	"github.com/capgate/capgate/internal/session"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/catalog"
	"github.com/capgate/capgate/router"
)

func TestParseFull(t *testing.T) {
	t.Parallel()
	got, err := config.Parse("capgate.yaml", []byte(`
listen: "0.0.0.0:80"
admin: "[::1]:81"
redis: {url: "rediss+sentinel://u@s1,s2:1/m", password_file: /p, ca_file: /r.pem, cert_file: /rc.pem,
  key_file: /rk.pem, server_name: r.example, timeout: 1s, wait_replicas: 2,
  accept_unsigned: true}
secret_file: /s.key
replicas: {id: gw-1, heartbeat: 1s}
domains: [Caps.Example.com, internal.]
zone: eu-west-1a
tls: {cert_file: /c.pem, key_file: /k.pem, client_ca_file: /ca.pem}
trusted_proxies: {from: [10.0.0.0/8, "2001:db8::1"], hops: 2, header: forwarded}
proxy_protocol: v2
audit: {to: /audit.log, required: true}
drain: {delay: 0s, timeout: 1m}
dns: {server: "10.0.0.10:53", resolve: 1s}
registration: {allow: [127.0.0.0/8, "::1"], capabilities: ["gen-*"], policy: ask, manifests: true,
  max: 7}
policies: {shadow: true}
approvals: {ttl: 1m, session_ttl: 2h}
idempotency: {ttl: 3h}
cache: {entries: 1000, ttl: 10s, max_stale: 2m}
log: {level: debug, format: text}
metrics: {tenants: 7}
rest: {tool_errors: http}
cors: {origins: ["https://app.test", "https://*.x.test:1"], headers: [X-More], expose: [X-Seen],
  credentials: true}
artifacts: {max_size: 5MiB, max_url_ttl: 2h}
overload: {max_memory: 2KiB, max_delay: 1ms}
fleets:
  - capability: weather
    services: [grpc.testing.TestService, a.b_c.D2]
    methods: [selu.capability.v1.Capability/Describe, "a.E/*"]
    backends: ["10.0.0.7:50051", {addr: "weather_1.tools.svc:50051", weight: 5, zone: b},
      {addr: "[fe80::1]:1", weight: 0}, "dns:///weather.tools.svc:1",
      {addr: "dns:///_grpc._tcp.weather.tools.svc", weight: 5, zone: b}]
    dialect: live
    ejection: {failures: 0, base: 1s}
    retry: {share: 0}
    slow_start: 0s
    idempotent: [get_forecast, "*"]
    idempotency: {grpc: true}
    event_source: [get_forecast]
    max_concurrent: 8
    queue: {wait: 3s}
    deadline: {default: 1s, max: 2s, stream: 3s}
    health: {interval: 4s, timeout: 500ms, rise: 1, fall: 3, wait_for_ready: 2s}
    policy: allow
    manifest: /m.yaml
    validate_arguments: true
    discovery: {interval: 1m}
    drift_guard: false
    enforce_credentials: true
    tls: {ca_file: /b.pem, cert_file: /bc.pem, key_file: /bk.pem, server_name: b.example}
  - &plain
    capability: plain
    backends: [localhost:1]
    tls: {}
client_limits:
  {connections: 100, exempt: []}
max_connection_age: 5m
max_connection_age_grace: 1h
`))
	check.Must(t, err)
	plain := config.DefaultFleet("plain", "localhost:1")
	plain.TLS.Enabled = true
	want := &config.Config{
		Listen: "0.0.0.0:80", Admin: "[::1]:81",
		Redis: redisstore.Config{
			URL: "rediss+sentinel://u@s1,s2:1/m", PasswordFile: "/p",
			CAFile: "/r.pem", CertFile: "/rc.pem", KeyFile: "/rk.pem", ServerName: "r.example", Timeout: time.Second,
			WaitReplicas: 2, AcceptUnsigned: true,
		},
		SecretFile: "/s.key",
		Replicas:   health.Shared{ID: "gw-1", Heartbeat: time.Second},
		Domains:    []string{"caps.example.com", "internal"},
		Zone:       "eu-west-1a",
		TLS:        tlsfiles.Server{CertFile: "/c.pem", KeyFile: "/k.pem", ClientCAFile: "/ca.pem"},
		Audit:      audit.Config{Path: "/audit.log", Required: true},
		Calls:      recent.Config{Keep: 500, Bounds: recent.Bounds{Calls: 2000, Days: 7}},
		History:    history.Config{Series: 200},
		MCP:        mcp.Settings{ApprovalWait: 45 * time.Second},
		Proxies: clientaddr.Config{
			Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::1/128")},
			Hops:    2, Header: "forwarded",
		},
		ProxyProtocol: clientaddr.V2,
		ConnectionAge: accept.Age{Max: 5 * time.Minute, Grace: time.Hour},
		Drain:         config.Drain{Timeout: time.Minute},
		Log:           telemetry.LogConfig{Level: slog.LevelDebug, Format: "text"},
		Metrics:       telemetry.MetricsConfig{Tenants: 7, Tools: 500, Backends: 500},
		REST:          rest.Config{ToolErrors: rest.HTTPErrors},
		CORS: cors.Config{Origins: []string{"https://app.test", "https://*.x.test:1"},
			Headers: []string{"X-More"}, Expose: []string{"X-Seen"}, Credentials: true},
		ClientLimits: accept.ClientLimits{Connections: 100},
		Overload:     overload.Config{MaxMemory: 2048, MaxDelay: time.Millisecond},
		Traces:       config.Default().Traces,
		Artifacts: config.Artifacts{Files: files.Config{MaxSize: 5 << 20},
			URLs: signing.Config{MaxTTL: 2 * time.Hour}},
		Sections: sources.Sections{
			DNS:        registry.Resolution{Server: "10.0.0.10:53", Resolve: time.Second},
			Kubernetes: kubernetes.Config{API: kubernetes.API{Address: "https://kubernetes.default.svc"}},
			Registration: registry.Permissions{
				Allow:        []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
				Capabilities: []string{"gen-*"}, Policy: call.Ask, Manifests: true, Max: 7,
			},
		},
		Policies:    config.Policies{Enabled: true, Shadow: true},
		Cache:       config.Cache{Entries: 1000, TTL: 10 * time.Second, MaxStale: 2 * time.Minute},
		Operators:   config.Operators{Session: session.Lifetime{TTL: 12 * time.Hour}},
		Approvals:   config.Approvals{Options: approvals.Options{TTL: time.Minute, SessionTTL: 2 * time.Hour}},
		Idempotency: idempotency.Options{TTL: 3 * time.Hour},
		Fleets: []config.Fleet{{
			FleetConfig: router.FleetConfig{
				Capability: "weather",
				Services:   []string{"grpc.testing.TestService", "a.b_c.D2"},
				Methods:    []string{"selu.capability.v1.Capability/Describe", "a.E/*"},
				Backends: []router.BackendConfig{{Addr: "10.0.0.7:50051", Weight: 100},
					{Addr: "weather_1.tools.svc:50051", Weight: 5, Zone: "b"}, {Addr: "[fe80::1]:1", Weight: -1}},
				Ejection:    router.Ejection{Failures: -1, ConnectFailures: -1, Base: time.Second},
				Retries:     router.Retries{Share: -1, Floor: -1, Off: true},
				Idempotent:  []string{"get_forecast", "*"},
				Idempotency: router.Idempotency{GRPC: true},
				Limit:       router.Limit{PerBackend: 8, Queue: router.Queue{Wait: 3 * time.Second}},
				SlowStart:   -1,
				Dialect:     call.Live,
				Affinity:    router.Affinity{SessionTTL: time.Hour, Artifacts: true, ArtifactTTL: 24 * time.Hour},
				Deadlines:   router.Deadlines{Default: time.Second, Max: 2 * time.Second, Stream: 3 * time.Second},
				EventSource: []string{"get_forecast"},
			},
			Names: []registry.Target{
				{Capability: "weather", Name: registry.Name{Host: "weather.tools.svc", Port: 1}, Weight: 100},
				{Capability: "weather", Name: registry.Name{Host: "_grpc._tcp.weather.tools.svc"}, Weight: 5,
					Zone: "b"},
			},
			ProtocolName: "selu",
			Health: health.Config{Interval: 4 * time.Second, Timeout: 500 * time.Millisecond, Rise: 1, Fall: 3,
				WaitForReady: 2 * time.Second},
			Declaration: catalog.Declaration{Policy: call.Allow, Validate: true, Unguarded: true,
				Discovery: catalog.Discovery{Interval: time.Minute}},
			ManifestFile: "/m.yaml",
			Enforce:      true,
			Own:          config.Own{MaxConcurrent: true, Discovery: true, Policy: true},
			TLS: tlsfiles.Client{Enabled: true, CAFile: "/b.pem", CertFile: "/bc.pem", KeyFile: "/bk.pem",
				ServerName: "b.example"},
		}, plain},
	}
	want.Named = map[string]config.Named{}
	for line, files := range map[int]string{
		4: "/p /r.pem /rc.pem", 5: "/rk.pem", 7: "/s.key", 11: "/c.pem /k.pem /ca.pem", 14: "/audit.log",
		49: "/m.yaml", 54: "/b.pem /bc.pem /bk.pem",
	} {
		for file := range strings.FieldsSeq(files) {
			want.Named[file] = config.Named{File: "capgate.yaml", Line: line}
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestClientLimits checks the shares of networks, of authenticated clients and of calls without a credential.
func TestClientLimits(t *testing.T) {
	t.Parallel()
	for connections, want := range map[int]struct {
		conns accept.Limits
		calls open.Limits
	}{
		16384: {accept.Limits{MaxConns: 16384, MaxNetworkConns: 4096, ReservedConns: 2048, MaxHandshakes: 512},
			open.Limits{All: 4096, Network: 512, Connection: 100}},
		16: {accept.Limits{MaxConns: 16, MaxNetworkConns: 4, ReservedConns: 2, MaxHandshakes: 8},
			open.Limits{All: 4, Network: 1, Connection: 1}},
	} {
		c := accept.ClientLimits{Connections: connections}
		conns, calls := c.Limits(), open.For(connections)
		if !reflect.DeepEqual(conns, want.conns) || calls != want.calls {
			t.Errorf("%d connections: %+v, %+v", connections, conns, calls)
		}
	}
}

func TestParseDefaults(t *testing.T) {
	t.Parallel()
	got, err := config.Parse("f", []byte("fleets: [{capability: a, backends: ['b:1'], deadline: {max: 10s}, "+
		"health: {interval: 100ms}}]"))
	check.Must(t, err)
	want := config.Default()
	fleet := config.DefaultFleet("a", "b:1")
	fleet.Deadlines.Max, fleet.Deadlines.Default = 10*time.Second, 10*time.Second
	fleet.Health.Interval, fleet.Health.Timeout = 100*time.Millisecond, 100*time.Millisecond
	want.Fleets = []config.Fleet{fleet}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// A fleet whose backends all register themselves, and a file without fleets.
func TestParseWithoutBackends(t *testing.T) {
	t.Parallel()
	got, err := config.Parse("f", []byte("fleets: [{capability: a, backends: []}]"))
	if want := []config.Fleet{config.DefaultFleet("a")}; err != nil || !reflect.DeepEqual(got.Fleets, want) {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = config.Parse("f", []byte("registration: {capabilities: ['*']}"))
	if err != nil || len(got.Fleets) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestParseAliases(t *testing.T) {
	t.Parallel()
	got, err := config.Parse("f", []byte(`
fleets:
  - {capability: a, backends: &hosts ["h:1", &two {addr: "h:2", weight: 3}], health: &slow {interval: 1m}}
  - {capability: b, backends: *hosts, health: *slow}
`))
	check.Must(t, err)
	if b := got.Fleets[1]; b.Backends[0] != config.DefaultBackend("h:1") ||
		b.Backends[1] != (router.BackendConfig{Addr: "h:2", Weight: 3}) || b.Health.Interval != time.Minute {
		t.Errorf("aliases not followed: %+v", b)
	}
}

// matchLines compares errors with the expected beginnings, in any order.
func matchLines(t *testing.T, got, want []string) {
	t.Helper()
	left := append([]string(nil), want...)
	for _, line := range got {
		found := false
		for i, w := range left {
			if strings.HasPrefix(line, w) {
				left = append(left[:i], left[i+1:]...)
				found = true
				break
			}
		}
		if !found {
			t.Errorf("not wanted: %s", line)
		}
	}
	for _, w := range left {
		t.Errorf("missing: %s", w)
	}
}

// TestApprovalRules: the rules on answers are those of the file, with a setting for own calls only if the file has one:
// an engine's questions go to its user unless a rule sets self.
func TestApprovalRules(t *testing.T) {
	t.Parallel()
	c, err := config.Parse("f", []byte(`
fleets: [{capability: a, backends: ['b:1']}]
approvals:
  rules:
    - {tenant: acme, capability: pay, tool: send, groups: [finance], answers: 2, reason: always, max_validity: 1h,
       escalate: {after: 1m, groups: [board]}, self: false}
    - {reason: deny}
    - {self: true}
`))
	check.Must(t, err)
	no, yes := false, true
	want := []approvals.AnswerRule{
		{Tenant: "acme", Capability: "pay", Tool: "send", Groups: []string{"finance"}, Answers: 2, Self: &no,
			Reason: approvals.ReasonAlways, MaxValidity: time.Hour,
			Escalate: approvals.Escalation{After: time.Minute, Groups: []string{"board"}}},
		{Tenant: "*", Capability: "*", Tool: "*", Answers: 1, Reason: approvals.ReasonDeny},
		{Tenant: "*", Capability: "*", Tool: "*", Answers: 1, Self: &yes},
	}
	if got := c.Approvals.Rules; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestParseBoundsAliases(t *testing.T) {
	t.Parallel()
	file := "fleets:\n- {capability: a, backends: &b [" + strings.Repeat("'b:1',", 3000) + "]}\n" +
		strings.Repeat("- {capability: a, backends: *b}\n", 3000)
	_, err := config.Parse("f", []byte(file))
	if err == nil || strings.Count(err.Error(), "\n") > 1000 {
		t.Errorf("a file that expands to nine million values: %.100v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("fleets: [{capability: a, backends: ['b:1']}]"))
	f.Add([]byte("listen: &a [*a, {x: *a}]\n---\n"))
	f.Add([]byte("? [a]\n: b\nfleets:\n- &x {<<: *x, capability: !!binary aGk=}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := config.Parse("f", data)
		if (c == nil) == (err == nil) {
			t.Fatalf("config %v, error %v", c, err)
		}
	})
}
