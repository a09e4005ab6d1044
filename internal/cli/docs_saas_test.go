package cli

import (
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/issuertest"
)

// TestTwoTenantsTwoReplicas: the page's two files and its commands run a service behind haproxy, with tokens of an
// issuer. Its tenants are separate, and it continues while a replica stops. The test changes only addresses, times and
// the issuer.
func TestTwoTenantsTwoReplicas(t *testing.T) {
	t.Parallel()
	needCurl(t)
	issuer := issuertest.Start(t)
	addr := map[string]string{}
	var replace []string
	for _, port := range []string{"8080", "8081", "8082", "9081", "9082", "50051", "50052", "6379"} {
		addr[port] = check.ClosedPort(t)
		replace = append(replace, "127.0.0.1:"+port, addr[port], "localhost:"+port, addr[port])
	}
	_, redis, _ := strings.Cut(addr["6379"], ":")
	// On a busy machine Redis, a check of haproxy, and a change may be late. Calls alternate between the replicas.
	patient := []string{"redis: redis://127.0.0.1:6379", "redis: {timeout: 10s, url: 'redis://" + addr["6379"] + "'}",
		"  retries 3\n", "  retries 3\n  timeout check 20s\n", "sleep 2\n", `timeout 60 sh -c '
until [ "$(for call in 1 2 3 4; do
  curl -s ` + addr["8080"] + `/v1/capabilities/weather/tools/get_forecast -H "Authorization: Bearer $ACME_TOKEN" -d "{}"
done | grep -o "errors#TOOL_BLOCKED" | wc -l)" = 4 ]; do sleep 0.5; done'
`}
	f := follow(t, "docs/run/saas.md", nil, append(append(patient, replace...), "--port 6379", "--port "+redis,
		"https://login.example.com\n", issuer.URL+"\n    ca_file: "+issuer.CAFile+"\n")...)
	token := func(tenant string) string {
		return issuer.Token(t, map[string]any{"tenant_id": tenant, "aud": "capgate", "sub": "ann"})
	}
	f.env = append(f.env, "ACME_TOKEN="+token("acme"), "GLOBEX_TOKEN="+token("globex"), "XDG_RUNTIME_DIR="+t.TempDir())
	f.files()
	f.serve("sh serve=redis")
	f.step("sh step=weather")
	f.serve("sh serve=weather1")
	f.serve("sh serve=weather2")
	for _, port := range []string{"6379", "50051", "50052"} {
		check.Until(t, "a server at "+port, func() (bool, string) {
			conn, err := net.Dial("tcp", addr[port])
			if err != nil {
				return false, err.Error()
			}
			return conn.Close() == nil, ""
		})
	}
	one, two := f.serve("sh serve=one"), f.serve("sh serve=two")
	f.serve("sh serve=haproxy")
	for _, p := range []*program{one, two} {
		p.stderr.wait(t, p, `"serving"`)
	}
	healthy := func(what string) {
		check.Until(t, what, func() (bool, string) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr["8080"]+"/healthz", nil)
			check.Must(t, err)
			resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
			if err != nil {
				return false, err.Error()
			}
			_ = resp.Body.Close()
			return resp.StatusCode == http.StatusOK, resp.Status
		})
	}
	healthy("a replica behind haproxy")
	f.step("sh step=call")
	f.step("sh step=rule")
	one.signal(t, syscall.SIGTERM)
	check.Received(t, one.exited, "the end of a replica")
	f.step("sh step=again")
	two.stop(t)
}
