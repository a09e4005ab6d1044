package audit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/testkit/check"
)

func aCall(i int) *telemetry.Record {
	return &telemetry.Record{
		Call: &call.Call{Tenant: "acme", User: "ann", Agent: "bot", Key: "k1", Method: call.Invoke,
			Capability: "weather", Tool: fmt.Sprint("tool-", i), Path: "/p?secret", Session: "hidden"},
		Client: "192.0.2.1", RequestID: "r1", Trace: telemetry.TraceID{15: 1},
		Decision: telemetry.Decision{Made: true, Verdict: call.Ask, Level: call.ByUser, Approval: "a1"},
		Outcome:  telemetry.Succeeded, Started: time.Unix(1_900_000_000, 0), Ended: 1500 * time.Microsecond,
	}
}

func open(t *testing.T, cfg audit.Config) *audit.Log {
	t.Helper()
	l, err := audit.Open(cfg)
	check.Must(t, err)
	t.Cleanup(l.Close)
	return l
}

// write opens a file, records some calls, and closes it.
func write(t *testing.T, path string, calls int) {
	t.Helper()
	l := open(t, audit.Config{Path: path, Replica: "gw-1", Version: "v1"})
	for i := range calls {
		l.RecordCall(aCall(i), false)
	}
	l.Close()
}

func verify(t *testing.T, text []byte, before *audit.Head) audit.Summary {
	t.Helper()
	s, err := audit.Verify(bytes.NewReader(text), before)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return s
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	check.Must(t, err)
	return text
}

// records returns the lines without their varying fields.
func records(t *testing.T, text []byte) (all []map[string]any) {
	t.Helper()
	for line := range bytes.Lines(text) {
		var r map[string]any
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, r)
	}
	return all
}

func TestRecords(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, audit.Config{Path: path, Replica: "gw-1", Version: "v1",
		Now: func() time.Time { return time.Unix(1_900_000_000, 0) }})
	l.RecordCall(aCall(1), false)
	l.RecordCall(&telemetry.Record{Call: &call.Call{Tenant: "a\"\\\x00\xff\u2028", Method: call.Other,
		Path: "/s/M?token=hunter2", User: strings.Repeat("ü", 200)}, Gateway: true}, false)
	l.RecordChange(&audit.Change{Actor: "operator", What: "rule.set", Tenant: "acme",
		Targets: []audit.Target{{"tool", "t"}, {"user", ""}}})
	l.Close()
	text := read(t, path)
	all := records(t, text)
	if len(all) != 4 {
		t.Fatalf("%d records", len(all))
	}
	for i, want := range []map[string]any{
		{"type": "start", "replica": "gw-1", "version": "v1", "why": "process", "time": "2030-03-17T17:46:40.000000Z"},
		{"type": "call", "time": "2030-03-17T17:46:40.001500Z", "tenant": "acme", "user": "ann", "agent": "bot",
			"key": "k1", "client": "192.0.2.1", "method": "Invoke", "capability": "weather", "tool": "tool-1",
			"request_id": "r1", "trace_id": "00000000000000000000000000000001", "decision": "ask", "level": "user",
			"approval": "a1", "code": "OK", "outcome": "success", "duration_us": 1500.0},
		{"type": "call", "tenant": "a\"\\\x00\ufffd\u2028", "method": "Other", "path": "/s/M",
			"user": strings.Repeat("ü", 128), "code": "OK", "gateway": true, "duration_us": 0.0},
		{"type": "change", "time": "2030-03-17T17:46:40.000000Z", "actor": "operator", "what": "rule.set",
			"tenant": "acme", "tool": "t"},
	} {
		got := all[i]
		if got["seq"] != float64(i+1) || len(got["prev"].(string)) != 64 {
			t.Errorf("record %d: %v", i, got)
		}
		delete(got, "seq")
		delete(got, "prev")
		if want["time"] == nil {
			delete(got, "time")
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	for _, never := range []string{"hunter2", "secret", "hidden"} {
		if strings.Contains(string(text), never) {
			t.Errorf("the log has %q", never)
		}
	}
}

// TestAnyChangeIsSeen: only a change of the last line is undetected.
func TestAnyChangeIsSeen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	write(t, path, 5)
	text := read(t, path)
	if s := verify(t, text, nil); s.Records != 6 || s.First != 1 || s.Last != 6 || s.Lost != 0 {
		t.Errorf("%+v", s)
	}
	lines := bytes.SplitAfter(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	lines[5] = append(lines[5], '\n')
	join := func(of ...[]byte) string { return string(bytes.Join(of, nil)) }
	for name, test := range map[string]struct {
		text string
		line int64
	}{
		"a word":            {strings.Replace(string(text), "tool-1", "tool-9", 1), 4},
		"of the first":      {strings.Replace(string(text), "gw-1", "gw-2", 1), 2},
		"a line is out":     {join(lines[0], lines[1], lines[3], lines[4], lines[5]), 3},
		"two in one place":  {join(lines[0], lines[1], lines[1], lines[2]), 3},
		"another order":     {join(lines[0], lines[2], lines[1], lines[3]), 2},
		"another beginning": {join(lines[1:2]...) + join(lines[3:]...), 2},
		"no record":         {join(lines[0]) + "{}\n", 2},
		"more than one":     {join(lines[0]) + strings.TrimSuffix(string(lines[1]), "\n") + " {}\n", 2},
		"no JSON":           {join(lines[0]) + "nonsense\n", 2},
		"cut off":           {strings.TrimSuffix(string(text), "\n"), 6},
		"a long line":       {join(lines[0]) + strings.Repeat("x", 40<<10), 2},
	} {
		_, err := audit.Verify(strings.NewReader(test.text), nil)
		var broken *audit.Broken
		if !errors.As(err, &broken) || broken.Line != test.line {
			t.Errorf("%s: %v, want line %d", name, err, test.line)
		}
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	write(t, path, 3)
	text := read(t, path)
	for _, torn := range []string{"", `{"seq":5,"prev":"ab`, "\x00\x00"} {
		check.Must(t, os.WriteFile(path, append(read(t, path), torn...), 0o600))
		write(t, path, 1)
		last := records(t, read(t, path))
		if cut := last[len(last)-2]["cut_bytes"]; len(torn) > 0 && cut != float64(len(torn)) ||
			len(torn) == 0 && cut != nil {
			t.Errorf("%q: %v", torn, last[len(last)-2])
		}
	}
	if s := verify(t, read(t, path), nil); s.Records != 4+3*2 {
		t.Errorf("%+v", s)
	}
	if got := read(t, path); !bytes.HasPrefix(got, text) {
		t.Errorf("the log begins with something else than before: %s", got)
	}
	only := filepath.Join(t.TempDir(), "torn")
	check.Must(t, os.WriteFile(only, []byte(`{"seq":1`), 0o600))
	write(t, only, 1)
	if s := verify(t, read(t, only), nil); s.Records != 2 || s.First != 1 {
		t.Errorf("%+v", s)
	}
}

func TestWhatIsNotOpened(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.log")
	open(t, audit.Config{Path: path})
	if _, err := audit.Open(audit.Config{Path: path}); err == nil ||
		!strings.Contains(err.Error(), "another process'") {
		t.Error(err)
	}
	other := filepath.Join(dir, "other")
	for _, text := range []string{"a line\n", "{}\n", `{"seq":0}` + "\n", strings.Repeat("x", 100<<10)} {
		check.Must(t, os.WriteFile(other, []byte(text), 0o600))
		if _, err := audit.Open(audit.Config{Path: other}); err == nil ||
			!strings.Contains(err.Error(), "not a record of an audit log") {
			t.Errorf("%.20q: %v", text, err)
		}
		if got := read(t, other); string(got) != text {
			t.Errorf("%.20q was changed", text)
		}
	}
	if _, err := audit.Open(audit.Config{Path: filepath.Join(dir, "no", "where")}); err == nil {
		t.Error("it was opened")
	}
}

// TestChainGoesOnInTheNextFile: a log that was moved goes on in a new file, whose chain continues the old one.
func TestChainGoesOnInTheNextFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	opened := make(chan struct{}, 10)
	l := open(t, audit.Config{Path: path, Log: whenSaid("audit log reopened", opened)})
	var head *audit.Head
	var text []byte
	for i := range 3 {
		for range 10 {
			l.RecordCall(aCall(i), false)
		}
		old := fmt.Sprint(path, ".", i)
		check.Must(t, os.Rename(path, old))
		l.Reopen()
		check.Received(t, opened, "the log to be opened anew")
		s := verify(t, read(t, old), head)
		head, text = &s.Head, append(text, read(t, old)...)
	}
	l.Reopen() // it was not moved
	l.Close()
	verify(t, read(t, path), head)
	if text = append(text, read(t, path)...); bytes.Count(text, []byte(`"type":"call"`)) != 30 {
		t.Errorf("%s", text)
	}
}

// TestMoved: no record is written to a moved file, also without Reopen; and while no new file can be created calls
// are rejected.
func TestMoved(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "log")
	path, old := filepath.Join(dir, "audit.log"), filepath.Join(dir, "old.log")
	for name, move := range map[string]func() error{
		"renamed": func() error { return os.Rename(path, old) },
		"removed": func() error { return os.Remove(path) },
		"another": func() error { return os.WriteFile(path+".new", nil, 0o600) },
	} {
		check.Must(t, os.MkdirAll(dir, 0o700))
		noticed := make(chan struct{}, 10)
		l := open(t, audit.Config{Path: path, Log: whenSaid("moved or removed", noticed)})
		check.Must(t, move())
		if name == "another" {
			check.Must(t, os.Rename(path+".new", path))
		}
		l.RecordCall(aCall(1), false)
		check.Received(t, noticed, "the notice")
		l.Close()
		if all := records(t, read(t, path)); all[0]["why"] != "moved" || all[len(all)-1]["tool"] != "tool-1" {
			t.Errorf("%s: %v", name, all)
		}
		check.Must(t, os.RemoveAll(dir))
	}

	check.Must(t, os.Mkdir(dir, 0o700))
	failed, again := make(chan struct{}, 10), make(chan struct{}, 10)
	l := open(t, audit.Config{Path: path, Required: true, Retry: time.Millisecond,
		Log: slog.New(said{"cannot be written": failed, "written again": again})})
	check.Must(t, os.Rename(dir, dir+"2"))
	l.RecordCall(aCall(1), l.Reserve())
	check.Received(t, failed, "a write to fail")
	if l.Reserve() {
		t.Error("a call was admitted that cannot be recorded")
	}
	check.Must(t, os.Mkdir(dir, 0o700))
	check.Received(t, again, "the second answer")
	if !l.Reserve() {
		t.Error("a call was refused that can be recorded")
	}
	l.Release()
	l.Close()
	if text := read(t, path); !bytes.Contains(text, []byte("tool-1")) {
		t.Errorf("%s", text)
	}
}

// TestConcurrency: concurrent records are whole and complete.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, audit.Config{Path: path, Queue: 100_000})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 1000 {
				l.RecordCall(aCall(g*1000+i), false)
			}
		})
	}
	wg.Wait()
	l.Close()
	s := verify(t, read(t, path), nil)
	if st := l.Stats(); s.Records != 8001 || st.Written != 8001 || st.Lost != (audit.Stats{}).Lost {
		t.Errorf("%+v, %+v", s, st)
	}
	seen := map[any]bool{}
	for _, r := range records(t, read(t, path)) {
		seen[r["tool"]] = true
	}
	if len(seen) != 8001 {
		t.Errorf("%d different records", len(seen))
	}
	l.RecordCall(aCall(0), false)
	if st := l.Stats(); st.Lost[audit.Closed] != 1 {
		t.Errorf("%+v", st)
	}
}

func TestRecordingDoesNotAllocate(t *testing.T) { // not parallel: AllocsPerRun counts what every goroutine allocates
	l := open(t, audit.Config{Path: filepath.Join(t.TempDir(), "audit.log"), Required: true})
	c := aCall(1)
	for range 4000 { // until the buffers have grown
		l.RecordCall(c, l.Reserve())
	}
	if n := testing.AllocsPerRun(1000, func() {
		if l.Reserve() {
			l.RecordCall(c, true)
		}
	}); n > 0.1 {
		t.Errorf("%v allocations a call", n)
	}
}

// FuzzWord: with any texts of callers a record is one line of JSON of bounded length.
func FuzzWord(f *testing.F) {
	f.Add("ann", "\"\\\n\x00\xff\u2028")
	f.Fuzz(func(t *testing.T, user, tool string) {
		var out bytes.Buffer
		l, err := audit.Open(audit.Config{Out: &out})
		check.Must(t, err)
		l.RecordCall(&telemetry.Record{Call: &call.Call{User: user, Tool: tool, Path: tool}, RequestID: user}, false)
		l.Close()
		if s := verify(t, out.Bytes(), nil); s.Records != 2 || out.Len() > 8<<10 {
			t.Errorf("%+v of %q", s, out.String())
		}
		if got := records(t, out.Bytes())[1]["user"]; len(user) <= 256 && user != "" &&
			got != strings.ToValidUTF8(user, "\ufffd") && !strings.Contains(fmt.Sprint(got), "\ufffd") {
			t.Errorf("%q became %q", user, got)
		}
	})
}

func BenchmarkCall(b *testing.B) {
	l, err := audit.Open(audit.Config{Path: filepath.Join(b.TempDir(), "audit.log"), Queue: 1 << 20})
	check.Must(b, err)
	defer l.Close()
	b.ReportAllocs()
	for c := aCall(1); b.Loop(); {
		l.RecordCall(c, false)
	}
	b.ReportMetric(float64(l.Stats().Lost[audit.QueueFull]), "lost")
}
