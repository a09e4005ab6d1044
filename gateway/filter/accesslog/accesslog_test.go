package accesslog_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/accesslog"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/filtertest"
	"github.com/capgate/capgate/router"
)

// logs is an access log and an audit log whose lines a test reads.
type logs struct {
	recorder *telemetry.Recorder
	access   *telemetry.AccessLog
	audit    *audit.Log
	lines    bytes.Buffer // of the access log
	trail    bytes.Buffer // of the audit log
}

func newLogs() (*logs, error) {
	metrics, err := telemetry.NewMetrics(prometheus.NewRegistry(), telemetry.MetricsConfig{})
	if err != nil {
		return nil, err
	}
	l := &logs{}
	l.access = telemetry.NewAccessLog(&l.lines, telemetry.AccessLogConfig{})
	l.recorder = telemetry.NewRecorder(metrics, l.access)
	l.audit, err = audit.Open(audit.Config{Out: &l.trail})
	return l, err
}

// read closes the logs, and returns their lines.
func (l *logs) read() (access, audited []string, err error) {
	if err = l.access.Close(); err != nil {
		return nil, nil, err
	}
	l.audit.Close()
	for line := range strings.Lines(l.trail.String()) {
		if strings.Contains(line, `"type":"call"`) {
			audited = append(audited, line)
		}
	}
	return slices.Collect(strings.Lines(l.lines.String())), audited, nil
}

// ended returns a call of a tool, and how it ended.
func ended(code uint32) (*filter.Call, *filter.Result) {
	c, _ := filtertest.NewCall()
	c.Info.Tool, c.RequestID, c.Client.Address = "forecast", "r-1", "10.0.0.1"
	c.Endpoint = filtertest.Fleet(router.FleetConfig{Backends: router.Addrs("a:1")}).Backends[0]
	c.Outcome = telemetry.Succeeded
	return c, &filter.Result{Final: true, Result: &relay.Result{
		Code: code, BytesIn: 3, BytesOut: 5, Started: time.Unix(1, 0),
		Forwarded: 2 * time.Millisecond, FirstByte: 4 * time.Millisecond, Ended: 6 * time.Millisecond,
	}}
}

// TestRecord: a call has one record, with its backend, bytes and times. If it succeeded, the record also has the
// outcome of its tool.
func TestRecord(t *testing.T) {
	t.Parallel()
	for code, outcome := range map[uint32]string{0: `"outcome":"success"`, 5: `"code":"NOT_FOUND"`} {
		l, err := newLogs()
		check.Must(t, err)
		f := accesslog.New(accesslog.Config{Recorder: l.recorder, Audit: l.audit,
			Quiet: func(time.Time) bool { return true }})
		c, result := ended(code)
		c.Audited = l.audit.Reserve()
		if step := f.Admit(c, nil); step != filter.Continue {
			t.Errorf("step %d", step)
		}
		f.Done(c, nil, result)
		access, audited, err := l.read()
		if err != nil || len(access) != 1 || len(audited) != 1 {
			t.Fatalf("%d lines, %d in the audit log, %v", len(access), len(audited), err)
		}
		for _, part := range []string{outcome, `"backend":"a:1"`, `"tool":"forecast"`, `"request_id":"r-1"`,
			`"bytes_in":3`, `"bytes_out":5`,
			`"forwarded_ms":2`, `"first_byte_ms":4`, `"duration_ms":6`} {
			if !strings.Contains(access[0], part) {
				t.Errorf("no %s in %s", part, access[0])
			}
		}
		for _, part := range []string{`"r-1"`, `"forecast"`, `"10.0.0.1"`} {
			if !strings.Contains(audited[0], part) {
				t.Errorf("no %s in the audit log's %s", part, audited[0])
			}
		}
		if code != 0 && strings.Contains(access[0], "outcome") {
			t.Errorf("an outcome in %s", access[0])
		}
	}
}

// TestQuiet: if Quiet reports true, shed calls are only counted, and their places in the audit log are released.
func TestQuiet(t *testing.T) {
	t.Parallel()
	l, err := newLogs()
	check.Must(t, err)
	f := accesslog.New(accesslog.Config{Recorder: l.recorder, Audit: l.audit, Quiet: func(time.Time) bool {
		return true
	}})
	for _, reserved := range []bool{false, true} {
		c, result := ended(8)
		c.Shed = overload.Delay
		c.Audited = reserved && l.audit.Reserve()
		f.Done(c, nil, result)
	}
	if access, audited, err := l.read(); err != nil || len(access) != 0 || len(audited) != 0 {
		t.Errorf("%q, %q, %v", access, audited, err)
	}
}

// TestPlaces: the audit log has room for two calls. Each call that is shed releases its place for the next one.
func TestPlaces(t *testing.T) {
	t.Parallel()
	l, err := newLogs()
	check.Must(t, err)
	l.audit.Close()
	l.audit, err = audit.Open(audit.Config{Out: &l.trail, Required: true, Queue: 2})
	check.Must(t, err)
	f := accesslog.New(accesslog.Config{Recorder: l.recorder, Audit: l.audit, Quiet: func(time.Time) bool {
		return true
	}})
	for i := range 3 {
		c, result := ended(8)
		c.Shed = overload.Delay
		if c.Audited = l.audit.Reserve(); !c.Audited {
			t.Errorf("call %d has no place", i)
		}
		f.Done(c, nil, result)
	}
	_, _, err = l.read()
	check.Must(t, err)
}

// Example: a call that a filter has rejected is recorded with the reason.
func Example() {
	l, err := newLogs()
	if err != nil {
		fmt.Println(err)
		return
	}
	f := accesslog.New(accesslog.Config{Recorder: l.recorder, Quiet: func(time.Time) bool { return false }})
	c, result := ended(16)
	c.Reason = "CREDENTIAL_MISSING"
	f.Done(c, nil, result)
	access, _, _ := l.read()
	fmt.Println(strings.Contains(access[0], `"reason":"CREDENTIAL_MISSING"`))
	// Output: true
}
