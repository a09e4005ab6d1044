package cli

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// webhookRequest is a request to a webhook.
type webhookRequest struct {
	signature string
	signed    func(secret string) string // the expected signature
	body      struct {
		Type string
		Data struct{ ID, Tool, User, Arguments, State, Link string }
	}
}

// An approval is posted, signed; a permanently rejected post becomes a dead letter that can be retried; a
// changed secret applies without a restart.
func TestWebhook(t *testing.T) {
	t.Parallel()
	requests, answers := make(chan webhookRequest, 10), make(chan int, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		got := webhookRequest{signature: r.Header.Get("webhook-signature"), signed: func(secret string) string {
			mac := hmac.New(sha256.New, []byte(secret))
			_, _ = fmt.Fprintf(mac, "%s.%s.%s", r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp"), text)
			return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		}}
		if err := json.Unmarshal(text, &got.body); err != nil {
			t.Error(err)
		}
		requests <- got
		select {
		case answer := <-answers:
			w.WriteHeader(answer)
		case <-r.Context().Done():
		}
	}))
	defer receiver.Close()
	const first, second = "the first secret of all, which is long", "the second secret of all, also long"
	backend := gatewaytest.NewCapability("b").Serve(t, call.Doc)
	config := strings.Replace(configOf("public_url: https://gate.example\napprovals: {notices: [{name: webhook, url: '"+
		receiver.URL+"/?token=hidden', secret_file: SECRET}]}\n"+patientRedis(""), backend.Addr), "policy: allow",
		"policy: ask", 1)
	var files configMap
	put := func(secret string) {
		files.put(t, map[string]string{"capgate.yaml": strings.Replace(config, "SECRET", files.file("secret"), 1),
			"secret": secret})
	}
	files.dir = t.TempDir()
	put(first + "\n")
	p, public, port := serve(t, nil, "--config", files.file("capgate.yaml"))
	ask := func(args string) {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-user-id", "ann")
		if _, err := dial(t, public).Invoke(ctx,
			&docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo,
				ArgsJson: []byte(args)}); err == nil {
			t.Error("no approval was created")
		}
	}
	next := func(secret, args string, answer int) {
		t.Helper()
		answers <- answer
		got := check.Received(t, requests, "a request")
		if d := got.body.Data; got.signature != got.signed(secret) || got.body.Type != "approval.asked" ||
			!strings.HasPrefix(d.ID, "apr_") ||
			d.Tool != gatewaytest.Echo || d.User != "ann" || d.State != "pending" || d.Arguments != args ||
			d.Link != "https://gate.example/inbox#/default/"+d.ID {
			t.Errorf("got %+v; d %+v", got, d)
		}
	}
	ask(`{"password":"hunter2"}`)
	next(first, "{\n  \"password\": [masked: 1 to 8 characters, by its name]\n}", http.StatusGone)
	dead := "http://" + port + "/v1/webhooks/dead"
	var page capgatepb.ListDeadLettersResponse
	check.Must(t, protojson.Unmarshal([]byte(waitPage(t, dead, "msg_")), &page))
	if len(page.GetDead()) != 1 || page.GetDead()[0].GetError() != "HTTP status 410" ||
		page.GetDead()[0].GetDestination() != "webhook" {
		t.Fatalf("dead: %v", &page)
	}
	for _, step := range [][2]string{{"list --query 410", page.GetDead()[0].GetId() + "  webhook"},
		{"retry --all --query none", "retried: 0 dead letters\n"}, {"retry --all", "retried: 1 dead letter\n"}} {
		exit, stdout, stderr := runProgram(t, nil, append([]string{"webhooks"},
			strings.Fields(step[0]+" --admin "+port)...)...)
		if exit != 0 || !strings.Contains(stdout, step[1]) {
			t.Errorf("%s: %d %s%s", step[0], exit, stdout, stderr)
		}
	}
	next(first, "{\n  \"password\": [masked: 1 to 8 characters, by its name]\n}", http.StatusOK)
	waitPage(t, "http://"+port+"/metrics",
		"\ncapgate_webhook_events_total{destination=\"webhook\",result=\"delivered\"} 1\n")

	put(second)
	p.stderr.wait(t, p, `"msg":"configuration loaded"`)
	ask(`{}`)
	next(second, "{}", http.StatusOK)
	p.stop(t)
	if log := p.stderr.String(); strings.Contains(log, "hidden") || strings.Contains(log, "secret of all") ||
		strings.Contains(log, "hunter2") {
		t.Errorf("a secret is logged: %s", log)
	}
}

// Problems with a secret are reported when the configuration is checked.
func TestWebhookNeedsASecret(t *testing.T) {
	t.Parallel()
	file := configFile(t, "127.0.0.1:1",
		"approvals: {notices: [{name: webhook, url: 'http://h', secret_file: /dev/null}]}")
	exit, _, stderr := runProgram(t, nil, "check", "--config", file)
	if exit == 0 || !strings.Contains(stderr, "approvals.notices[0].secret_file: /dev/null: the file has no secret") {
		t.Errorf("%d: %s", exit, stderr)
	}
}
