package cli

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/smtptest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// channelPost is a request that a channel received.
type channelPost struct{ path, signature, body string }

// channels returns a server with webhooks: /dead/… returns 410, /silent/… nothing, all others 200.
func channels(t *testing.T) (string, <-chan channelPost) {
	t.Helper()
	came := make(chan channelPost, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if strings.HasPrefix(r.URL.Path, "/dead/") {
			w.WriteHeader(http.StatusGone)
			_, _ = io.WriteString(w, r.URL.Path) // a receiver may repeat its URL
			return
		}
		if strings.HasPrefix(r.URL.Path, "/silent/") {
			<-r.Context().Done()
			return
		}
		came <- channelPost{r.URL.Path, r.Header.Get("webhook-signature"), string(text)}
	}))
	t.Cleanup(s.Close)
	return s.URL, came
}

// noticesConfig has a destination of each kind: one is dead, one is for another tenant, and one is for answers.
const noticesConfig = `public_url: https://gate.example
approvals:
  notices:
  - {name: dead, format: slack, url_file: DIR/dead.url}
  - {name: silent, format: slack, url_file: DIR/silent.url}
  - {name: other, format: slack, url_file: DIR/slack.url, tenants: [other]}
  - {name: slack, format: slack, url_file: DIR/slack.url}
  - {name: teams, format: teams, url_file: DIR/teams.url, events: [denied]}
  - name: mail
    events: [asked, denied]
    email:
      server: SERVER
      from: Gate <gate@example.com>
      to: [ann@example.com, Bob <bob@example.com>]
      ca_file: DIR/ca.pem
      username: gate
      password_file: DIR/password
`

// TestNotices: a team has channels of Slack and Teams and mailboxes, over real connections; silent and dead
// destinations delay none of them; a dead letter names its destination and can be sent again; and no secret of
// a destination is disclosed anywhere.
func TestNotices(t *testing.T) {
	t.Parallel()
	url, posts := channels(t)
	authority := certtest.New(t)
	mails := smtptest.Start(t, smtptest.Options{
		TLS:  &tls.Config{Certificates: []tls.Certificate{authority.Server(t)}, MinVersion: tls.VersionTLS12},
		Auth: "PLAIN", User: "gate", Password: "hidden-password",
	})
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc)
	files := configMap{dir: t.TempDir()}
	all := map[string]string{
		"capgate.yaml": strings.Replace(configOf(strings.NewReplacer("DIR", files.dir+"/..data", "SERVER",
			mails.Addr).Replace(noticesConfig)+patientRedis(""), backend.Addr), "policy: allow", "policy: ask", 1),
		"dead.url": url + "/dead/hidden-dead", "slack.url": url + "/slack/hidden-slack\n",
		"silent.url": url + "/silent/hidden", "teams.url": url + "/teams/hidden-teams?sig=hidden",
		"password": "hidden-password\n", "ca.pem": authority.PEM,
	}
	files.put(t, all)
	p, public, port := serve(t, nil, "--config", files.file("capgate.yaml"))

	_, _, errs := runProgram(t, nil, "invoke", "--addr", public, "caps", gatewaytest.Echo, "--user", "<!channel>",
		`{"password":"hunter2","path":"/tmp/x"}`)
	id := approvalID(t, errs)
	link := "https://gate.example/inbox#/default/" + id
	got := check.Received(t, posts, "the notice to Slack")
	if got.path != "/slack/hidden-slack" || got.signature != "" || !strings.Contains(got.body, `"url":"`+link+`"`) ||
		!strings.Contains(got.body, "&lt;!channel&gt;") || strings.Contains(got.body, "hunter2") ||
		!strings.Contains(got.body, "/tmp/x") {
		t.Errorf("Slack: %+v", got)
	}
	mail := check.Received(t, mails.Came(), "mail")
	if mail.From != "gate@example.com" || fmt.Sprint(mail.To) != "[ann@example.com bob@example.com]" || !mail.TLS ||
		mail.User != "gate" || !strings.Contains(mail.Text, "Message-ID: <"+id+"@example.com>\n") ||
		!strings.Contains(mail.Text, "Subject: Approval needed: echo of caps, tenant default\n") ||
		!strings.Contains(strings.ReplaceAll(mail.Text, "=\n", ""), "\n"+link+"\n") ||
		strings.Contains(mail.Text, "hunter2") {
		t.Errorf("mail: %+v", mail)
	}
	if exit, _, stderr := capgateApprovals(t, port, "deny", id, "--comment", "not *today*"); exit != 0 {
		t.Fatal(stderr)
	}
	if got = check.Received(t, posts, "the notice to Teams"); got.path != "/teams/hidden-teams" ||
		!strings.Contains(got.body, `"type":"Action.OpenUrl"`) || !strings.Contains(got.body, `"not *today*"`) {
		t.Errorf("Teams: %+v", got)
	}
	mail = check.Received(t, mails.Came(), "mail")
	if !strings.Contains(mail.Text, "In-Reply-To: <"+id+"@example.com>\n") ||
		!strings.Contains(mail.Text, "Subject: Denied: echo of caps") {
		t.Errorf("mail: %+v", mail)
	}

	dead := "http://" + port + "/v1/webhooks/dead"
	letters := waitPage(t, dead, "msg_")
	var page capgatepb.ListDeadLettersResponse
	check.Must(t, protojson.Unmarshal([]byte(letters), &page))
	if len(page.GetDead()) != 1 || page.GetDead()[0].GetDestination() != "dead" ||
		page.GetDead()[0].GetApproval() != id {
		t.Fatalf("dead: %v", &page)
	}
	all["dead.url"] = url + "/slack/hidden-new"
	files.put(t, all)
	p.stderr.wait(t, p, `"msg":"configuration loaded"`)
	resp, err := clienttest.HTTP.Post(dead+"/"+page.GetDead()[0].GetId()+":retry", "application/json", nil)
	check.Must(t, err)
	resp.Body.Close()
	if got = check.Received(t, posts, "the notice to be sent again"); got.path != "/slack/hidden-new" ||
		!strings.Contains(got.body, "Approval, already denied") {
		t.Errorf("retried: %+v", got)
	}
	metrics := waitPage(t, "http://"+port+"/metrics",
		"\ncapgate_webhook_events_total{destination=\"dead\",result=\"delivered\"} 1\n")
	for _, line := range []string{`webhook_events_total{destination="mail",result="delivered"} 2`,
		`webhook_events_total{destination="other",result="delivered"} 0`, `approvals_ttl_seconds 600`,
		`approvals_answer_seconds_count{tenant="default"} 1`} {
		if !strings.Contains(metrics, "\ncapgate_"+line+"\n") {
			t.Errorf("metrics lack %s", line)
		}
	}
	_, status, _ := runProgram(t, nil, "status", "--admin", port)
	p.stop(t)
	for name, text := range map[string]string{"log": p.stderr.String(), "dead letters": letters, "metrics": metrics,
		"status": status} {
		if strings.Contains(text, "hidden") {
			t.Errorf("a secret is in %s: %s", name, text)
		}
	}
}

// TestDestinationsReload: after a reload, an added destination gets notices, a remaining one continues, and a
// removed one gets none.
func TestDestinationsReload(t *testing.T) {
	t.Parallel()
	url, posts := channels(t)
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc)
	files := configMap{dir: t.TempDir()}
	put := func(names ...string) {
		all, entries := map[string]string{}, []string{}
		for _, name := range names {
			all[name+".url"] = url + "/" + name
			entries = append(entries, fmt.Sprintf("{name: %s, format: slack, url_file: %s/..data/%s.url}", name,
				files.dir, name))
		}
		all["capgate.yaml"] = strings.Replace(configOf("approvals: {notices: ["+strings.Join(entries, ", ")+"]}\n"+
			patientRedis(""), backend.Addr), "policy: allow", "policy: ask", 1)
		files.put(t, all)
	}
	put()
	p, public, admin := serve(t, nil, "--config", files.file("capgate.yaml"))
	calls, destinations := 0, []string{}
	reload := func(names ...string) {
		t.Helper()
		put(names...)
		p.signal(t, syscall.SIGHUP)
		for _, name := range names {
			waitPage(t, "http://"+admin+"/metrics", `capgate_webhook_events_total{destination="`+name+`"`)
		}
		for _, name := range destinations {
			if slices.Contains(names, name) {
				continue
			}
			waitGone(t, admin, `destination="`+name+`"`)
		}
		destinations = names
		if _, text := page(t, "http://"+admin+"/readyz"); strings.Contains(text, "needs_restart") {
			t.Error(text)
		}
		calls++
		_, _, errs := runProgram(t, nil, "invoke", "--addr", public, "caps", gatewaytest.Echo,
			fmt.Sprintf(`{"n":%d}`, calls))
		id, came := approvalID(t, errs), []string{}
		for len(came) < len(names) { // a new destination also gets the events of the last minute
			if got := check.Received(t, posts, "a notice"); strings.Contains(got.body, id) {
				came = append(came, strings.TrimPrefix(got.path, "/"))
			}
		}
		if slices.Sort(came); !slices.Equal(came, names) {
			t.Errorf("notices reached %v, want %v", came, names)
		}
	}
	reload("one")
	reload("one", "two")
	reload("three", "two") // in alphabetical order
	reload("two")
}

// TestProblemsOfNotices: capgate check reports problems in files of destinations, and quotes none of them.
func TestProblemsOfNotices(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		check.Must(t, os.WriteFile(dir+"/"+name, []byte(text), 0o600))
		return dir + "/" + name
	}
	mail := "email: {server: 'smtp.example.com:587', from: a@b.c, to: [d@e.f], "
	for entry, want := range map[string]string{
		"format: slack, url_file: " + dir + "/absent":                          "approvals.notices[0].url_file: ",
		"format: slack, url_file: " + write("http", "http://hidden.example/x"): "the URL must begin with https",
		"format: teams, url_file: " + write("words", "hidden words"):           "the URL is not an HTTP URL",
		"format: teams, url_file: " + write("empty", "\n"):                     "the URL is not an HTTP URL",
		"url: 'http://h', secret_file: " + write("short", "hidden"):            "approvals.notices[0].secret_file: ",
		mail + "ca_file: " + write("ca", "hidden") + "}":                       "contains no PEM certificate",
		mail + "username: u, password_file: " + write("none", "\n") + "}": "password_file: " + dir +
			"/none is empty",
	} {
		file := configFile(t, "127.0.0.1:1", "approvals: {notices: [{name: a, "+entry+"}]}")
		exit, out, stderr := runProgram(t, nil, "check", "--config", file)
		if exit == 0 || !strings.Contains(stderr, want) || strings.Contains(stderr+out, "hidden") {
			t.Errorf("%s: %d %s%s", entry, exit, out, stderr)
		}
	}
}
