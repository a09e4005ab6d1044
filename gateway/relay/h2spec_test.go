package relay_test

import (
	"encoding/xml"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
)

// h2specCases is the number of cases of h2spec v2.2.1, strict ones included. Fewer mean that it did not run.
const h2specCases = 146

// h2specExceptions maps the cases that need not pass to the reasons.
var h2specExceptions = map[string]string{
	"http2/3.5: Sends invalid connection preface": "the port speaks HTTP/1.1 too: what does not begin as HTTP/2 is " +
		"answered " +
		"with 400 as a malformed HTTP/1.1 request and closed, where h2spec takes nothing but the closing",
}

type h2specReport struct {
	Suites []struct {
		Package string `xml:"package,attr"`
		Cases   []struct {
			Package string `xml:"package,attr"`
			Name    string `xml:"classname,attr"`
			Failure *struct {
				Text string `xml:",innerxml"`
			} `xml:"failure"`
			Error *struct {
				Text string `xml:",innerxml"`
			} `xml:"error"`
			Skipped *struct{} `xml:"skipped"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

// TestH2Spec runs h2spec, pinned in tools/h2spec, against a relay in front of a web handler.
func TestH2Spec(t *testing.T) {
	t.Parallel()
	web := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "a small body")
	})
	r := relay.New(relay.Config{}, &forwarder{}, web)
	check.Cleanup(t, r.Close)
	ln := check.Listen(t)
	go func() { _ = r.Serve(ln) }()

	host, port, err := net.SplitHostPort(ln.Addr().String())
	check.Must(t, err)
	file := filepath.Join(t.TempDir(), "report.xml")
	out, err := exec.CommandContext(t.Context(), "go", "-C", "../../tools/h2spec", "tool", "h2spec",
		"--host", host, "--port", port, "--timeout", "20", "--strict", "--junit-report", file).CombinedOutput()
	text, readErr := os.ReadFile(file)
	if readErr != nil {
		t.Fatalf("h2spec left no report: %v\n%s", err, out)
	}
	var report h2specReport
	check.Must(t, xml.Unmarshal(text, &report))
	cases := 0
	for _, suite := range report.Suites {
		for _, c := range suite.Cases {
			cases++
			name := c.Package + ": " + c.Name
			reason, excepted := h2specExceptions[name]
			switch failed := c.Failure != nil || c.Error != nil || c.Skipped != nil; {
			case failed && !excepted:
				t.Errorf("failed: %s", name)
			case !failed && excepted:
				t.Errorf("passed, though it is listed as an exception (%s): %s", reason, name)
			}
		}
	}
	if cases != h2specCases {
		t.Errorf("%d cases, want %d", cases, h2specCases)
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}
