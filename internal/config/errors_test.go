package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/upstream/protocols"
	"github.com/capgate/capgate/internal/config"
)

// Every expected text must be the beginning of an error, and no other error may exist.
func TestParseErrors(t *testing.T) {
	t.Parallel()
	const fleet = "fleets: [{capability: a, backends: ['b:1']}]\n"
	for name, test := range map[string]struct {
		file string
		want []string
	}{
		"empty":             {"", []string{`f:1: the file is empty; at least one fleet`}},
		"only a comment":    {"# nothing\n", []string{`f:1: the file is empty`}},
		"no fleets":         {"listen: ':1'\n", []string{`f:1: fleets: at least one fleet is required`}},
		"fleets not a list": {"fleets: {}\n", []string{`f:1: fleets: must be a list`}},
		"hosts": {"hosts: [\"a:80\", \"*.example.com\"]\nadmin_hosts: [\"http://a\"]\n" + fleet,
			[]string{"f:1: hosts[0]: \"a:80\" is not the name of a host",
				"f:2: admin_hosts[0]: \"http://a\" is not the name of a host"}},
		"not a mapping": {"- a\n", []string{
			`f:1: must be a mapping with the fields admin, admin_hosts, admin_url, approvals, artifacts, ` +
				`audit, cache, calls, certificates, client_limits, cors, dns, domains, drain, fleets, `}},
		"syntax": {"listen: ':1'\nadmin: [\n", []string{`f:2: not YAML: `}},
		"indented too little": {"fleets:\n  - capability: a\n    backends: ['b:1']\n   policy: allow\n",
			[]string{`f:4: not YAML: did not find expected '-' indicator, while parsing a block collection that begins in line 2`}},
		"a tab": {fleet + "log:\n\tlevel: debug\n",
			[]string{`f:3: not YAML: a tab indents the line; YAML indents with spaces`}},
		"a reserved character": {fleet + "listen: @a\n",
			[]string{`f:2: not YAML: no value begins with '@', unless it is quoted`}},
		"an open quote": {fleet + "listen: \":1\nlog: {}\nadmin: a\n",
			[]string{`f:2: not YAML: found unexpected end of stream, while scanning a quoted scalar that begins in line 2`}},
		"an open brace": {fleet + "log: {level: debug\nlisten: ':1'\n",
			[]string{`f:3: not YAML: did not find expected ',' or '}'`}},
		"not UTF-8": {fleet + "listen: \"\xff\"\n", []string{`f:2: not YAML: invalid leading UTF-8 octet`}},
		"not a character": {fleet + "listen: \"\x01\"\n",
			[]string{`f:2: not YAML: control characters are not allowed`}},
		"two documents": {fleet + "---\na: 1\n", []string{`f:2: a second document`}},
		"unknown fields": {fleet + "lisen: ':1'\nlog: {leveln: a}\n", []string{
			`f:2: lisen: unknown field; did you mean "listen"?`,
			`f:3: log.leveln: unknown field; did you mean "level"?`}},
		"given twice": {"listen: ':1'\nlisten: ':2'\n" + fleet,
			[]string{`f:2: listen: given twice; the first is in line 1`}},
		"addresses": {"listen: 8080\nadmin: ':x'\n" + fleet, []string{
			`f:1: listen: "8080" is not an address to listen on; write host:port`,
			`f:2: admin: port "x" must be a number from 0 to 65535`}},
		"bad host": {"listen: 'a b:1'\n" + fleet, []string{`f:1: listen: host "a b" is neither`}},
		"tenants that search": {"mcp: {search: acme}\n" + fleet, []string{
			`f:1: mcp.search: must be true, false or a list of tenants, as in [acme]`}},
		"a text for tenants that search": {"mcp: {search: 'true'}\n" + fleet,
			[]string{`f:1: mcp.search: must be true, false`}},
		"a mapping of tenants that search": {"mcp: {search: {acme: true}}\n" + fleet, []string{
			`f:1: mcp.search: must be true, false`}},
		"wrong tenants that search": {"mcp: {search: [acme, 'a b', acme]}\n" + fleet, []string{
			`f:1: mcp.search[1]: `, `f:1: mcp.search[2]: acme is already in the list`}},
		"same addresses": {"listen: ':1'\nadmin: ':1'\n" + fleet,
			[]string{`f:2: admin: :1 is also the public address`}},
		"empty value": {"listen:\nadmin: ''\n" + fleet,
			[]string{`f:1: listen: must be a string that is not empty`, `f:2: admin: must be a string`}},
		"redis": {"redis: redis://:planted@h:x\n" + fleet,
			[]string{`f:1: redis: the address has a port that is not a number`}},
		"redis with more": {"redis:\n  url: 'http://:planted@h'\n  timeout: 1m\n  cert_file: c\n  password: planted\n" +
			fleet, []string{
			`f:2: redis.url: the address has an unknown scheme; write embedded, redis://HOST`,
			`f:3: redis.timeout: "1m" is not possible; it must be a duration from 1ms to 10s`,
			`f:2: redis: cert_file and key_file belong together`,
			`f:2: redis: ca_file, cert_file, key_file and server_name are for TLS`,
			`f:5: redis.password: unknown field; the fields here are accept_unsigned, ca_file, `}},
		"overload": {"overload: {max_memory: much, max_delay: 11s, max: 1}\n" + fleet, []string{
			`f:1: overload.max_memory: "much" is not possible; it must be a size, as in`,
			`f:1: overload.max_delay: "11s" is not possible; it must be a duration from 100µs to 10s`,
			`f:1: overload.max: unknown field`}},
		"client_limits": {"client_limits: {connections: 15, exempt: [home], max: 1}\n" +
			fleet, []string{
			`f:1: client_limits.connections: "15" is not possible`,
			`f:1: client_limits.exempt[0]: "home" is neither an IP address nor a prefix`,
			`f:1: client_limits.max: unknown field`}},
		"overload, a word": {"overload: on\n" + fleet,
			[]string{`f:1: overload: "on" is not possible; it must be off, or a mapping with the fields m`}},
		"metrics": {"metrics: {tenants: 10001, tenant: 3}\n" + fleet, []string{
			`f:1: metrics.tenants: "10001" is not possible; it must be a whole number from 0 to 10000`,
			`f:1: metrics.tenant: unknown field`}},
		"replicas": {"replicas: {id: 'a b', heartbeat: 1ms, Id: x}\n" + fleet, []string{
			`f:1: replicas.id: a replica's id has no spaces`,
			`f:1: replicas.heartbeat: "1ms" is not possible; it must be a duration from 200ms to 1m`,
			`f:1: replicas.Id: unknown field`}},
		"domains": {"domains:\n- https://a\n- a.b\n- A.B.\n- '*.c'\n" + fleet, []string{
			`f:2: domains[0]: "https://a" is not a domain`,
			`f:4: domains[2]: a.b is already at domains[1], in line 3`,
			`f:5: domains[3]: "*.c" is not a domain`}},
		"tls": {"tls: {cert_file: a}\n" + fleet, []string{
			`f:1: tls.key_file: required: private key of the certificate, PEM`}},
		"drain": {"drain: {delay: 5, timeout: -1s}\n" + fleet,
			[]string{`f:1: drain.delay: "5" is not possible; it must be a duration, as in 500ms, 5s or 2m`,
				`f:1: drain.timeout: "-1s" is not possible; it must be a duration`}},
		"max_connection_age": {"max_connection_age: 100ms\nmax_connection_age_grace: -1s\n" + fleet, []string{
			`f:1: max_connection_age: 100ms is too short; 1s is the least`,
			`f:2: max_connection_age_grace: "-1s" is not possible`}},
		"max_connection_age_grace": {"max_connection_age: 0s\nmax_connection_age_grace: 1s\n" + fleet, []string{
			`f:2: max_connection_age_grace: it has no effect without max_connection_age`}},
		"log": {"log: {level: loud, format: xml}\n" + fleet,
			[]string{`f:1: log.level: "loud" is not possible; it must be debug, info, warn or error`,
				`f:1: log.format: "xml" is not possible; it must be text or json`}},
		"no key": {fleet[:len(fleet)-2] + ", {}]\n",
			[]string{`f:1: fleets[1].capability: required`, `f:1: fleets[1].backends: required`}},
		"capabilities": {"fleets:\n- {capability: Weather, backends: ['b:1']}\n- {capability: a, backends: " +
			"['b:1']}\n- {capability: a, backends: ['b:1']}\n", []string{
			`f:2: fleets[0].capability: "Weather" is not a capability id; it has 1 to 63 lower-case`,
			`f:4: fleets[2].capability: a is already at fleets[1].capability, in line 3`}},
		"services": {"fleets:\n- {capability: a, backends: ['b:1'], services: [x.Y, x.Y, /x.Y/Z, a..b, 1a]}\n- " +
			"{capability: c, backends: ['b:1'], services: [x.Y]}\n", []string{
			`f:2: fleets[0].services[1]: x.Y is already at fleets[0].services[0]`,
			`f:2: fleets[0].services[2]: "/x.Y/Z" is not a gRPC service`,
			`f:2: fleets[0].services[3]: "a..b"`, `f:2: fleets[0].services[4]: "1a"`,
			`f:3: fleets[1].services[0]: x.Y is already`}},
		"methods": {"fleets:\n- {capability: a, backends: ['b:1'], methods: [x.Y, /x.Y/Z, 'x.Y/Z?', '*', " +
			"'x.Y/Z/*', 'selu.capability.v1.Capability/*']}\n", []string{
			`f:2: fleets[0].methods[0]: "x.Y" is not a gRPC method; write package.Service/Method`,
			`f:2: fleets[0].methods[1]: "/x.Y/Z" is not`, `f:2: fleets[0].methods[2]: "x.Y/Z?" is not`,
			`f:2: fleets[0].methods[3]: "*" is not`, `f:2: fleets[0].methods[4]: "x.Y/Z/*" is not`,
			`f:2: fleets[0].methods[5]: "selu.capability.v1.Capability/*" would include methods that no policy covers`}},
		"queue": {"fleets:\n- capability: a\n  backends: ['b:1']\n  max_concurrent: -1\n  queue: {wait: -1s" +
			"}\n", []string{
			`f:4: fleets[0].max_concurrent: "-1" is not possible`,
			`f:5: fleets[0].queue.wait: "-1s" is not possible; it must be a duration`}},
		"cors": {"cors: {origins: ['app.test', 'https://a.test/', 'https://a.*.test', 'ftp://a', 'HTTPS://a', " +
			"'null'], headers: ['*', 'a b']}\n" + fleet, []string{
			`f:1: cors.origins[0]: "app.test"`, `f:1: cors.origins[1]: "https://a.test/"`,
			`f:1: cors.origins[2]: "https://a.*.test"`, `f:1: cors.origins[3]: "ftp://a"`,
			`f:1: cors.origins[4]: "HTTPS://a"`, `f:1: cors.origins[5]: "null"`,
			`f:1: cors.headers[0]: "*"`, `f:1: cors.headers[1]: "a b"`}},
		"cors of all": {"cors: {origins: ['*'], credentials: true}\n" + fleet,
			[]string{`f:1: cors.origins: "*" is not possible with credentials: name the origins`}},
		"artifacts": {"artifacts: {max_size: 0, max_url_ttl: 0s}\n" + fleet,
			[]string{"f:1: artifacts.max_size: ", "f:1: artifacts.max_url_ttl: "}},
		"rest": {"rest: {tool_errors: loud, cors: 1}\n" + fleet,
			[]string{`f:1: rest.tool_errors: "loud"`, `f:1: rest.cors: `}},
		"event_source": {"fleets:\n- capability: a\n  backends: ['b:1']\n  event_source: ['a b']\n",
			[]string{`f:4: fleets[0].event_source[0]: "a b" is not a tool`}},
		"idempotency": {"idempotency: {ttl: 1ms}\nfleets:\n- capability: a\n  " +
			"backends: ['b:1']\n  idempotency: {http: true}\n", []string{
			`f:1: idempotency.ttl: "1ms" is not possible; it must be a duration from 1s to 720h`,
			`f:5: fleets[0].idempotency.http: unknown field`}},
		"idempotent": {"fleets:\n- capability: a\n  backends: ['b:1']\n  idempotent: [x, 'a b', x, 'get_*']\n",
			[]string{
				`f:4: fleets[0].idempotent[1]: "a b" is not a tool`,
				`f:4: fleets[0].idempotent[2]: x is already at fleets[0].idempotent[0], in line 4`,
				`f:4: fleets[0].idempotent[3]: "get_*" is not a tool`}},
		"backends": {"fleets:\n- capability: a\n  backends:\n  - 'b:1'\n  - 'dns:///b'\n  - ':1'\n  - b\n  - " +
			"'b:0'\n  - '0.0.0.0:1'\n  - 'https://b'\n  - 'b:1'\n  - 'a/b:1'\n  - []\n", []string{
			`f:5: fleets[0].backends[1]: "b" has no port; write dns:///host:port`,
			`f:6: fleets[0].backends[2]: the host is missing; for this machine write "127.0.0.1:1"`,
			`f:7: fleets[0].backends[3]: "b" is not an address`, `f:8: fleets[0].backends[4]: port "0" must be`,
			`f:9: fleets[0].backends[5]: 0.0.0.0 is not an address`,
			`f:10: fleets[0].backends[6]: write host:port without "https://"`,
			`f:11: fleets[0].backends[7]: b:1 is already at fleets[0].backends[0], in line 4`,
			`f:12: fleets[0].backends[8]: host "a/b" is`,
			`f:13: fleets[0].backends[9]: must be a string`}},
		"manifests of Services": {"kubernetes: {watch: {manifests: [" + strings.Repeat("a, ", 20) + "a]}}\n", []string{
			`f:1: kubernetes.watch.manifests: has 21 names, and may have 20, as each has a watch`}},
		"kubernetes": {"kubernetes: {api: {address: 'http://h'}, watch: {namespaces: ['*', 'A']}}\n" +
			"fleets:\n- {capability: a, kubernetes: {}}\n" +
			"- {capability: b, kubernetes: {service: S, port: 0, path: mcp}}\n" +
			"- {capability: c, kubernetes: {service: s, selector: a=b, port: UP}}\n" +
			"- {capability: d, kubernetes: {selector: 'a b', namespace: a.b}}\n" +
			"- {capability: e}\n", []string{
			`f:1: kubernetes.api.address: needs https://, as requests have the token of a service account`,
			`f:1: kubernetes.watch.namespaces[1]: "A" is not the name of a Kubernetes object`,
			`f:3: fleets[0].kubernetes.service: required: the name of the Service, or selector with the labels`,
			`f:4: fleets[1].kubernetes.service: "S" is not the name of a Kubernetes object; it has 1 to 63 lower-case`,
			`f:4: fleets[1].kubernetes.port: port 0 must be from 1 to 65535`,
			`f:4: fleets[1].kubernetes.path: "mcp" is not the path of a URL, as in /mcp`,
			`f:5: fleets[2].kubernetes.selector: service already names the Service; give one of the two`,
			`f:5: fleets[2].kubernetes.port: "UP" is not the name of a port; it has 1 to 15 lower-case letters, digits`,
			`f:6: fleets[3].kubernetes.selector: "a b" is not a condition on labels; write app=weather`,
			`f:6: fleets[3].kubernetes.namespace: "a.b" is not the name of a Kubernetes object`,
			`f:7: fleets[4].backends: required`}},
		"backends with more": {"zone: 'a b'\nfleets:\n- capability: a\n  backends:\n  - {addr: 'b:1', weight: " +
			"10001, zone: 'x/y'}\n  - {weight: 1}\n  - {addr: 'b:1'}\n  - {addr: b, port: 1}\n", []string{
			`f:1: zone: "a b" is not a zone`,
			`f:5: fleets[0].backends[0].weight: "10001" is not possible; it must be a whole number from 0 to 10000`,
			`f:5: fleets[0].backends[0].zone: "x/y" is not a zone`,
			`f:6: fleets[0].backends[1].addr: required: host:port, resolved at each connect; dns:///host:port for`,
			`f:7: fleets[0].backends[2].addr: b:1 is already at fleets[0].backends[0].addr, in line 5`,
			`f:8: fleets[0].backends[3].addr: "b" is not an address`,
			`f:8: fleets[0].backends[3].port: unknown field; the fields here are addr, session, tenant, weight, zone`}},
		"ejection": {"fleets:\n- capability: a\n  backends: ['b:1']\n  ejection: {failures: -1, " +
			"base: 1ms}\n  retry: {share: 2}\n  " +
			"slow_start: -1s\n", []string{
			`f:4: fleets[0].ejection.failures: "-1" is not possible; it must be a whole number from 0 to 1000`,
			`f:4: fleets[0].ejection.base: "1ms" is not possible; it must be a duration from 10ms to 24h`,
			`f:5: fleets[0].retry.share: "2" is not possible; it must be a number from 0 to 1`,
			`f:6: fleets[0].slow_start: "-1s" is not possible; it must be a duration`}},
		"no backends": {"fleets: [{capability: a}]\n",
			[]string{`f:1: fleets[0].backends: required: addresses of the backends: host:port, dns:///`}},
		"names": {"fleets:\n- capability: a\n  backends:\n  - dns:///b:1\n  - {addr: 'dns:///b:1', weight: 5}\n  " +
			"- {addr: 'dns://b:1'}\n", []string{
			`f:5: fleets[0].backends[1].addr: dns:///b:1 is already at fleets[0].backends[0], in line 4`,
			`f:6: fleets[0].backends[2].addr: write three slashes, as in dns:///b:1`}},
		"dns": {"dns: {server: localhost, resolve: 2h}\n" + fleet, []string{
			`f:1: dns.server: "localhost" is not a server; write ip:port`,
			`f:1: dns.resolve: "2h" is not possible; it must be a duration from 10ms to 1h`}},
		"registration": {"registration:\n  allow: [127.0.0.1/8, loopback, '::ffff:1.2.3.4']\n  capabilities: " +
			"['a[']\n  max: -1\n  ttl: 1s\n  manifests: maybe\n" + fleet, []string{
			`f:2: registration.allow[0]: 127.0.0.1/8 has bits set after its length; write 127.0.0.0/8`,
			`f:2: registration.allow[1]: "loopback" is neither`,
			`f:2: registration.allow[2]: "::ffff:1.2.3.4" is neither`,
			`f:3: registration.capabilities[0]: "a[" is not a pattern`,
			`f:4: registration.max: "-1" is not possible`, `f:5: registration.ttl: unknown field`,
			`f:6: registration.manifests: "maybe" is not possible`}},
		"proxies": {"trusted_proxies:\n  from: [10.0.0.1/8]\n  hops: 0\n  header: x-real-ip\nproxy_protocol: v3\n" +
			fleet, []string{
			`f:2: trusted_proxies.from[0]: 10.0.0.1/8 has bits set`, `f:3: trusted_proxies.hops: "0" is not possible`,
			`f:4: trusted_proxies.header: "x-real-ip" is not possible; it must be x-forwarded-for or forwarded`,
			`f:5: proxy_protocol: "v3" is not possible; it must be off, v1 or v2; did you mean "v1"?`}},
		"audit": {"audit: {required: maybe}\n" + fleet, []string{
			`f:1: audit.required: "maybe" is not possible`,
			`f:1: audit.to: required: a file, as in /var/log/capgate/audit.log, or stdout`}},
		"proxies, nobody": {"trusted_proxies: {hops: 1}\nproxy_protocol: v2\n" + fleet, []string{
			`f:1: trusted_proxies.from: required: addresses of the proxies, as in [10.0.0.0/8]`,
			`f:2: proxy_protocol: needs trusted_proxies.from`}},
		"fleet values": {"fleets:\n- capability: a\n  backends: ['b:1']\n  dialect: elder\n  deadline: {default: " +
			"2s, max: 1s, stream: 0s}\n  health: {interval: 1ms, timeout: 1m, rise: 0, fall: x}\n  " +
			"policy: blok\n  tls: {insecure: yes, ca_file: c, cert_file: d, server_name: 'a b'}\n  " +
			"validate_arguments: true\n  discovery: {interval: 1ms}\n  drift_guard: no\n", []string{
			`f:10: fleets[0].discovery.interval: `,
			`f:11: fleets[0].drift_guard: "no" is not possible`,
			`f:4: fleets[0].dialect: "elder" is not possible; it must be auto, doc, live or legacy`,
			`f:5: fleets[0].deadline.stream: "0s" is not possible; it must be a duration above 0`,
			`f:5: fleets[0].deadline.default: 2s is more than max, which is 1s`,
			`f:6: fleets[0].health.fall: "x"`,
			`f:6: fleets[0].health.interval: "1ms" is not possible; it must be a duration of at least 10ms`,
			`f:6: fleets[0].health.rise: "0"`,
			`f:6: fleets[0].health.timeout: 1m0s is more than interval, which is 5s`,
			`f:7: fleets[0].policy: "blok" is not possible; it must be allow, ask or block; did you mean "block"?`,
			`f:9: fleets[0].validate_arguments: needs a manifest, which has the schemas of the tools; set manifest`,
			`f:8: fleets[0].tls.insecure: "yes" is not possible`, `f:8: fleets[0].tls.server_name: "a b" is`,
			`f:8: fleets[0].tls: cert_file and key_file belong`}},
		"enforcing": {fleet[:len(fleet)-3] + ", enforce_credentials: true}]\n",
			[]string{`f:1: fleets[0].enforce_credentials: needs a manifest, which declares the credentials; ` +
				`set manifest`}},
		"insecure": {fleet[:len(fleet)-3] + ", tls: {insecure: true, ca_file: c}}]\n",
			[]string{`f:1: fleets[0].tls.insecure: true accepts any certificate`}},
		"names of tools over MCP": {"fleets:\n- {capability: a, backends: ['b:1']}\n" +
			"- {capability: b, backends: ['b:2'], mcp: {name: a}}\n" +
			"- {capability: c, backends: ['b:3'], mcp: {name: a__b}}\n", []string{
			`f:3: fleets[1].mcp.name: the tools of a already begin with "a"; give one of the fleets another mcp.name`,
			`f:4: fleets[2].mcp.name: "a__b" is not a prefix of tools; it has 1 to 63 letters, digits, hyphens, dots and`}},
		"approval rules": {"approvals:\n  ttl: 1m\n  rules:\n  - {groups: [a], escalate: {after: 1m, groups: [b]}}\n" +
			"  - {escalate: {after: 1s, groups: [b]}}\n  - {groups: [a], escalate: {after: 59s, groups: [b]}}\n" +
			fleet, []string{
			`f:4: approvals.rules[0].escalate: after 1m0s is too late: approvals expire after 1m0s`,
			`f:5: approvals.rules[1].escalate: needs groups`}},
		"a link with a password": {"traces: {endpoint: 'h:1', link: 'https://u:planted@h/{trace_id}'}\n" + fleet,
			[]string{`f:1: traces.link: must have neither a user nor a fragment`}},
		"unsigned records": {"redis: {url: 'redis://h', accept_unsigned: true}\n" + fleet,
			[]string{`f:1: redis.accept_unsigned: has no effect without secret_file; leave it out`}},
		"a user of two lines": {"listeners: [{address: '127.0.0.1:1', user: \"a\\nb\"}]\n" + fleet,
			[]string{`f:1: listeners[0].user: must have 1 to 256 printable ASCII characters`}},
		"a sender of two lines": {"approvals: {notices: [{name: n, email: {server: 'h:1', from: '=?utf-8?q?a=0Ab?= " +
			"<a@b.c>', to: [a@b.c]}}]}\n" + fleet, []string{`f:1: approvals.notices[0].email.from: is not an address`}},
		"a URL with a password": {"fleets: [{capability: a, backends: ['https://u:planted@h/mcp']}]\n", []string{
			`f:1: fleets[0].backends[0]: must have neither a user, a query nor a fragment`}},
		"dialect": {fleet[:len(fleet)-3] + ", dialect: klingon, policy: maybe}]\n",
			[]string{`f:1: fleets[0].dialect: "klingon" is not`, `f:1: fleets[0].policy: "maybe" is not`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := config.Parse("f", []byte(test.file))
			if err == nil {
				t.Fatalf("accepted: %+v", c)
			}
			if strings.Contains(err.Error(), "planted") {
				t.Errorf("the error repeats a secret: %v", err)
			}
			matchLines(t, strings.Split(err.Error(), "\n"), test.want)
		})
	}
}

// TestRemovedFields checks that a field of an earlier version is an error that says what to write instead.
func TestRemovedFields(t *testing.T) {
	t.Parallel()
	const fleet = "fleets: [{capability: a, backends: ['b:1']}]\n"
	for text, want := range map[string]string{
		"traces: {endpoint: 'h:1', service: x}\n" +
			fleet: `f:1: traces.service: this field was removed; set OTEL_SERVICE_NAME in ` + `the environment`,
		"approvals: {webhook: {url: 'http://h'}}\n" + fleet: `f:1: approvals.webhook: this field was removed; write ` +
			`approvals.notices: [{name: webhook, …}] with its fields`,
		"fleets:\n- {capability: a, backends: []}\n- {capability: b, backends: [], retry: {floor: " +
			"3}}\n": `f:3: fleets[1].retry.floor: ` +
			`this field was removed; leave it out: 10 retries a second are permitted besides share; share: 0 turns retries off`,
		"policies: {ttl: 1m}\n" + fleet: `f:1: policies.ttl: this field was removed; write cache.ttl`,
		"fleets: [{capability: a, backends: [], queue: {length: " +
			"0}}]\n": `f:1: fleets[0].queue.length: this field was ` +
			`removed; leave it out: 100 calls may wait; wait: 0s turns waiting off`,
		"redis: {url: 'redis://h', store_key_file: /k}\n" +
			fleet: `f:1: redis.store_key_file: this field was removed; ` +
			`write secret_file at the top level: all keys are derived from it, so records that another key signed ` +
			`count as absent: set rules and tenants again, and rotate API keys`,
		"fleets: [{capability: a, backends: [], retry: {flor: 3}}]\n": `f:1: fleets[0].retry.flor: unknown field`,
	} {
		_, err := config.Parse("f", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s\n%v\nwant %s", text, err, want)
		}
	}
}

// TestEveryRemovedFieldHasItsAdvice: each removed field is at a place that a file can have.
func TestEveryRemovedFieldHasItsAdvice(t *testing.T) {
	t.Parallel()
	for field, advice := range config.Removed {
		text := "1"
		for _, part := range slices.Backward(strings.Split(field, ".")) {
			if name, list := strings.CutSuffix(part, "[]"); list {
				part, text = name, "["+text+"]"
			}
			text = "{" + part + ": " + text + "}"
		}
		want := strings.ReplaceAll(field, "[]", "[0]") + ": this field was removed; " + advice
		_, err := config.Parse("f", []byte(text), protocols.Config()...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nwant %s", text, err, want)
		}
	}
}
