package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// variable names the fields whose values differ from run to run.
var (
	varyingNumbers = regexp.MustCompile(`^(port|latency_ms|used|held|duration_ms|bytes_in|bytes_out|retry_after)$`)
	varyingTexts   = regexp.MustCompile(`^(duration|replica|version|csrf_token|lease|credential|etag|page_token|` +
		`answer_duration|next_page_token|requestId|request_id|traceId|trace_id)$`)
	varyingForms = []struct {
		form *regexp.Regexp
		name string
	}{
		{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
		{regexp.MustCompile(`apr_[A-Za-z0-9]+`), "apr_ID"},
		{regexp.MustCompile(`msg_[A-Za-z0-9]+`), "msg_ID"},
		{regexp.MustCompile(`\b[0-9a-f]{32}\b`), "HEX"},
		{regexp.MustCompile(`\b[A-Z2-7]{26}\b`), "SESSION"},
		{regexp.MustCompile(`\b[a-z2-7]{16}\b`), "KEY"},
		{regexp.MustCompile(`\b[a-z2-7]{10}-\d+\b`), "CALL"},
		{regexp.MustCompile(`\b\d{13}-\d+\b`), "EVENT"},
		{regexp.MustCompile(`\b0\.\d{6,9}s`), "DURATION"},
		{regexp.MustCompile(`127\.0\.0\.1:\d{3,}`), "127.0.0.1:PORT"},
		{regexp.MustCompile(`gRPC status Unavailable: .*|the server closed the connection before .*`), "UNREACHABLE"},
	}
)

// plain replaces what differs from run to run in text.
func (g *goldenGateway) plain(text string) string {
	text = strings.ReplaceAll(g.names.Replace(text), "\u00a0", " ") // protojson writes either form of whitespace
	for _, v := range varyingForms {
		text = v.form.ReplaceAllString(text, v.name)
	}
	return text
}

// normal returns JSON with sorted fields, and with constants in place of what differs from run to run. Numbers
// stay as written.
func (g *goldenGateway) normal(t *testing.T, body []byte) string {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	check.Must(t, e.Encode(g.constant("", v)))
	return b.String()
}

// constant returns the value of a field, or a constant if it differs from run to run.
func (g *goldenGateway) constant(field string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			v[name] = g.constant(name, value)
		}
		if v["per"] != nil && v["used"] != nil {
			v["apart"] = "NUMBER" // of values with a call in the last seconds; it is absent without one
		}
	case []any:
		if field == "minutes" { // their number differs, and which of them have calls
			all := map[string]any{}
			for _, m := range v {
				for name, value := range m.(map[string]any) { //nolint:forcetypeassert // a list of messages
					all[name] = fmt.Sprintf("%T", value)
				}
			}
			return all
		}
		for i := range v {
			v[i] = g.constant(field, v[i])
		}
	case json.Number:
		if varyingNumbers.MatchString(field) {
			return "NUMBER"
		}
	case string:
		if varyingTexts.MatchString(field) {
			return "TEXT"
		}
		return g.plain(v)
	}
	return v
}
