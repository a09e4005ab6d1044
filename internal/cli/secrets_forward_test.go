package cli

import (
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
)

// throughForward makes calls through capgate forward, to the gateway and to a proxy that does not exist.
func (g *secretive) throughForward(t *testing.T) {
	t.Helper()
	_, port, err := net.SplitHostPort(g.public)
	check.Must(t, err)
	proxy := "http://selu:" + g.plant("proxy's password") + "@" + check.ClosedPort(t)
	for name, env := range map[string][]string{
		"a good key": {"CAPGATE_URL=https://localhost:" + port, "CAPGATE_CA_FILE=" + g.cert, "CAPGATE_KEY=" + g.key},
		"a bad key": {"CAPGATE_URL=https://localhost:" + port, "CAPGATE_CA_FILE=" + g.cert,
			"CAPGATE_KEY=" + g.plant("forward's bad key")},
		"another certificate": {"CAPGATE_URL=https://localhost:" + port, "CAPGATE_KEY=" +
			g.plant("forward's unused key")},
		"a proxy": {"CAPGATE_URL=https://gateway.test", "CAPGATE_PROXY=environment", "HTTPS_PROXY=" +
			proxy},
	} {
		p := start(t, append(env, "CAPGATE_LISTEN=127.0.0.1:0", "SELU_CAPABILITY_ID=caps"), "forward", "--wait",
			"100ms")
		conn, err := clienttest.NewConn("passthrough:///"+attribute(p.stderr.wait(t, p, `"msg":"serving"`), "listen"),
			grpc.WithTransportCredentials(insecure.NewCredentials()))
		check.Must(t, err)
		client := livepb.NewCapabilityClient(conn)
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+g.plant("forward, "+name))
		_, err = client.Invoke(ctx, &livepb.InvokeRequest{ToolName: gatewaytest.Echo,
			ArgsJson:   []byte(`{"password":"` + g.plant("arguments through forward, "+name) + `"}`),
			ConfigJson: []byte(`{"API_KEY":"` + g.plant("config_json through forward, "+name) + `"}`)})
		if (err == nil) != (name == "a good key") {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			g.scan("forward's errors", err.Error())
		}
		_ = conn.Close()
		p.stop(t)
		g.scan("capgate forward", p.stdout.String()+p.stderr.String())
	}
	exit, stdout, stderr := runProgram(t, []string{"CAPGATE_KEY=" + g.plant("forward's key, twice") + " x"}, "forward",
		"--capability", "caps", "--url", "http://user:"+g.plant("password of forward's URL")+"@localhost")
	if exit == 0 || !strings.Contains(stderr, "CAPGATE_") {
		t.Errorf("got %d %s", exit, stderr)
	}
	g.scan("capgate forward", stdout+stderr)
}
