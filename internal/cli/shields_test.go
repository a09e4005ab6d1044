package cli

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// blockingShield blocks everything.
type blockingShield struct {
	openparallaxv1.UnimplementedShieldServiceServer
}

func (blockingShield) Evaluate(context.Context, *openparallaxv1.EvaluateRequest) (*openparallaxv1.EvaluateResponse,
	error) {
	return &openparallaxv1.EvaluateResponse{Verdict: &openparallaxv1.Verdict{
		Decision: openparallaxv1.VerdictDecision_BLOCK, ExpiresAt: time.Now().Add(time.Hour).Unix(),
	}}, nil
}

func serveShield(t *testing.T) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	g := grpc.NewServer()
	openparallaxv1.RegisterShieldServiceServer(g, blockingShield{})
	go func() { _ = g.Serve(ln) }()
	t.Cleanup(g.Stop)
	return ln.Addr().String()
}

// Shields are added, changed and removed with the file, and an invalid file leaves the current ones in effect.
func TestReloadShields(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr
	shield := "shield: main\nshields: [{name: main, address: '" + serveShield(t) + "', timeout: 10s}]"
	var files configMap
	files.put(t, map[string]string{"capgate.yaml": configOf(shield, backend)})
	p, public, admin := serve(t, nil, "--config", files.file("capgate.yaml"))
	change := func(text string) { // at once: another test covers that the gateway notices the change itself
		files.put(t, map[string]string{"capgate.yaml": text})
		p.signal(t, syscall.SIGHUP)
	}
	client := dial(t, public)
	invoke := func() string {
		_, err := client.Invoke(t.Context(),
			&docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo, ArgsJson: []byte("{}")})
		if info := clienttest.ErrorInfo(err); info != nil {
			return info.GetReason()
		}
		return status.Code(err).String()
	}
	metrics := "http://" + admin + "/metrics"
	waitPage(t, metrics, `capgate_shield_verdicts_total{cached="false",decision="block",shield="main"} 0`)
	waitPage(t, metrics, `capgate_shield_failures_total{kind="absent",shield="main"} 0`)
	waitPage(t, metrics, `capgate_shield_duration_seconds_count{shield="main"} 0`)

	if got := invoke(); got != "SHIELD_BLOCKED" {
		t.Error(got)
	}
	waitPage(t, metrics, `capgate_shield_verdicts_total{cached="false",decision="block",shield="main"} 1`)

	change(configOf("shield: other", backend))
	waitPage(t, "http://"+admin+"/readyz", `there is no shield`)
	waitPage(t, metrics, `shield="main"`)

	change(configOf("shield: other\nshields: [{name: other, url: 'http://127.0.0.1:1/evaluate'}]", backend))
	waitPage(t, metrics, `shield="other"`)
	if got := invoke(); got != "SHIELD_UNAVAILABLE" {
		t.Error(got)
	}

	change(configOf("shield: tls\nshields: [{name: tls, address: 'h:1', tls: {ca_file: "+files.file("nowhere.crt")+
		"}}]", backend))
	waitPage(t, "http://"+admin+"/readyz", `shield tls: tls.ca_file: `)
	waitPage(t, metrics, `shield="other"`)

	change(configOf("", backend))
	waitGone(t, admin, `shield="other"`)
	if got := invoke(); got != "OK" {
		t.Error(got)
	}
}
