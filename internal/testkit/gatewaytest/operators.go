package gatewaytest

import (
	"bufio"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// Admin requests a page of the admin API.
func (g *Gateway) Admin(t testing.TB, path string) (status int, body string) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport, Timeout: check.Patience}).Get("http://" + g.AdminAddr + path)
	check.Must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	return resp.StatusCode, string(text)
}

// Metrics returns the samples of /metrics by name and labels in Prometheus' form:
// `capgate_calls_in_flight{capability="weather"}`.
func (g *Gateway) Metrics(t testing.TB) map[string]float64 {
	t.Helper()
	status, body := g.Admin(t, "/metrics")
	if status != http.StatusOK {
		t.Fatalf("/metrics: %d", status)
	}
	samples := map[string]float64{}
	for scan := bufio.NewScanner(strings.NewReader(body)); scan.Scan(); {
		line := scan.Text()
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			t.Fatalf("/metrics: %q: %v", line, err)
		}
		samples[line[:at]] = value
	}
	return samples
}
