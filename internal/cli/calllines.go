package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/lib/untrusted"
)

// callLines shortens the JSON lines of the access log for a terminal.
type callLines struct {
	w     io.Writer
	color bool
}

// loggedCall has the fields of the access log that a short line shows.
type loggedCall struct {
	Time                           time.Time
	Method, Path, Capability, Tool string
	Code, Outcome, Reason          string
	Client, Tenant, User, Agent    string
	Duration                       float64 `json:"duration_ms"`
}

// Write gets whole lines.
func (l *callLines) Write(lines []byte) (int, error) {
	var b strings.Builder
	for line := range strings.Lines(string(lines)) {
		var c loggedCall
		if json.Unmarshal([]byte(line), &c) == nil { // the access log writes no other lines
			b.WriteString(c.short(l.color))
		}
	}
	if _, err := io.WriteString(l.w, b.String()); err != nil {
		return 0, err
	}
	return len(lines), nil
}

// short returns the time, the caller, what was called, how the call ended, and how long it took.
func (c *loggedCall) short(color bool) string {
	result, tint := c.Code, green
	switch {
	case c.Reason != "":
		result, tint = c.Reason, red
	case c.Outcome == "tool_error":
		result, tint = "tool error", yellow
	case c.Code != "OK":
		tint = red
	}
	if color {
		result = tint + result + plain
	}
	return fmt.Sprintf("%s  %-12s  %-28s  %s  %s\n", c.Time.Local().Format(time.TimeOnly),
		untrusted.Beginning(c.caller(), 40), untrusted.Beginning(c.called(), 80), result, latency(c.Duration))
}

// caller names the caller, as precisely as the call does.
func (c *loggedCall) caller() string {
	name := c.Client
	switch {
	case c.User != "":
		name = c.User
	case c.Agent != "":
		name = c.Agent
	}
	if c.Tenant != "" && c.Tenant != "default" {
		name = c.Tenant + "/" + name
	}
	return name
}

// called names the tool, or else the method.
func (c *loggedCall) called() string {
	switch {
	case c.Tool != "" && c.Capability != "":
		return c.Capability + "." + c.Tool
	case c.Tool != "":
		return c.Tool
	case c.Path != "":
		return c.Path
	case c.Capability != "":
		return c.Capability + " " + c.Method
	}
	return c.Method
}
