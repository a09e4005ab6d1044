package main

import (
	"bufio"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A demo is a running `capgate demo`.
type demo struct{ calls, console, token string }

// client has a timeout for requests that hang.
var client = &http.Client{Timeout: 30 * time.Second}

// startDemo runs cmd with the arguments of a demo, until the end of the test.
func startDemo(t *testing.T, cmd *exec.Cmd) *demo {
	t.Helper()
	cmd.Args = append(cmd.Args, "demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	text := start(t, cmd, "Stop with Ctrl-C")
	found := regexp.MustCompile(`(?s)calls +(http://\S+).*console +(http://[^/]+)/\?token=(\S+)`).
		FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("no addresses in\n%s", text)
	}
	return &demo{found[1], found[2], found[3]}
}

// start runs cmd until the end of the test. It returns the output of cmd as soon as it contains the given text.
func start(t *testing.T, cmd *exec.Cmd, until string) string {
	t.Helper()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	out, err := cmd.StdoutPipe()
	must(t, err)
	cmd.Stderr = cmd.Stdout
	must(t, cmd.Start())
	killed := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }) // a program without output
	t.Cleanup(func() {
		killed.Stop()
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // killed
	})
	lines := bufio.NewReader(out)
	var text strings.Builder
	for !strings.Contains(text.String(), until) {
		line, err := lines.ReadString('\n')
		text.WriteString(line)
		if err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, text.String())
		}
	}
	killed.Stop()
	go func() { _, _ = io.Copy(io.Discard, lines) }() // until the process ends
	return text.String()
}

// call calls the demo's tool and returns the response.
func (d *demo) call(t *testing.T, location string) string {
	t.Helper()
	resp, err := client.Post(d.calls+"/v1/capabilities/weather/tools/get_current_weather", "application/json",
		strings.NewReader(`{"location":"`+location+`"}`))
	must(t, err)
	return body(t, resp)
}

// saysVersion checks the version in the metrics, and in the replicas that the console shows.
func (d *demo) saysVersion(t *testing.T) {
	t.Helper()
	for path, want := range map[string]string{
		"/metrics":    `capgate_build_info{[^}]*version="` + regexp.QuoteMeta(testVersion) + `"`,
		"/v1/summary": `"version":"` + regexp.QuoteMeta(testVersion) + `"`,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.console+path, nil)
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+d.token)
		resp, err := client.Do(req)
		must(t, err)
		if text := body(t, resp); !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("%s has no %s:\n%.2000s", path, want, text)
		}
	}
}

func body(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer func() { _ = resp.Body.Close() }() // it has been read
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	return string(text)
}
