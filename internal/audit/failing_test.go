package audit_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/testkit/check"
)

// said returns channels that get a log's lines with certain words.
type said map[string]chan<- struct{}

func whenSaid(words string, tell chan<- struct{}) *slog.Logger { return slog.New(said{words: tell}) }

func (said) Enabled(context.Context, slog.Level) bool { return true }
func (s said) WithAttrs([]slog.Attr) slog.Handler     { return s }
func (s said) WithGroup(string) slog.Handler          { return s }

func (s said) Handle(_ context.Context, r slog.Record) error {
	for words, tell := range s {
		if strings.Contains(r.Message, words) {
			tell <- struct{}{}
		}
	}
	return nil
}

// moody writes a few bytes of each write, or fails.
type moody struct {
	mu   sync.Mutex
	most int // bytes of one write; -1: all
	bytes.Buffer
}

var errMood = errors.New("not now")

func (m *moody) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.most < 0 || len(p) <= m.most {
		return m.Buffer.Write(p)
	}
	n, _ := m.Buffer.Write(p[:m.most])
	return n, errMood
}

func (m *moody) take(most int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.most = most
}

// TestASinkThatFails: records wait in the bounded queue, and are written when the sink works again; lost ones are
// counted and recorded.
func TestASinkThatFails(t *testing.T) {
	t.Parallel()
	for _, most := range []int{0, 1, 100} {
		out := &moody{most: most}
		failed := make(chan struct{}, 1000)
		l := open(t, audit.Config{Out: out, Queue: 10, Retry: time.Millisecond,
			Log: whenSaid("cannot be written", failed)})
		l.RecordCall(aCall(0), false)
		check.Received(t, failed, "a write to fail")
		for i := range 50 {
			l.RecordCall(aCall(i), false)
		}
		out.take(-1)
		l.Close()
		s := verify(t, out.Bytes(), nil)
		st := l.Stats()
		if lost := st.Lost[audit.SinkFailed] + st.Lost[audit.QueueFull]; s.Lost != int64(lost) || lost == 0 ||
			uint64(s.Records) != st.Written || st.Lost[audit.Closed] != 0 {
			t.Errorf("%d bytes at once: %+v, %+v; lost %+v", most, s, st, lost)
		}
	}
}

// TestAFullDisk: a required log admits no call, another one loses records.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	for _, required := range []bool{false, true} {
		failed := make(chan struct{}, 10)
		l := open(t, audit.Config{Path: "/dev/full", Required: required, Queue: 5, Retry: time.Millisecond,
			Patience: time.Millisecond, Log: whenSaid("cannot be written", failed)})
		check.Received(t, failed, "a write to fail")
		if l.Reserve() == required || l.Blocked() != required {
			t.Errorf("required %v: admitted, or blocked %v", required, l.Blocked())
		}
		for i := range 20 {
			l.RecordCall(aCall(i), false)
		}
		l.Close()
		if st := l.Stats(); st.Written != 0 || st.Lost[audit.SinkFailed] < 10 || st.Lost[audit.Closed] == 0 ||
			!st.Failing {
			t.Errorf("%+v", st)
		}
	}
}

// TestASlowPipe: no caller waits for it, and its records are whole.
func TestASlowPipe(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	check.Must(t, err)
	l := open(t, audit.Config{Out: w, Required: true, Queue: 100})
	admitted, refused := 0, 0
	for i := range 2000 { // more than the pipe and the queue hold
		if l.Reserve() {
			admitted++
			l.RecordCall(aCall(i), true)
		} else {
			refused++
			l.RecordCall(aCall(i), false)
		}
	}
	text := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(r)
		text <- all
	}()
	l.Close()
	_ = w.Close()
	all := check.Received(t, text, "the text of the pipe")
	s, st := verify(t, all, nil), l.Stats()
	if refused == 0 || admitted+refused != 2000 || s.Lost == 0 || uint64(s.Lost) != st.Lost[audit.QueueFull] {
		t.Errorf("%d admitted, %d refused, %+v, %+v", admitted, refused, s, st)
	}
	calls := int64(0)
	for _, rec := range records(t, all) {
		if rec["type"] == "call" {
			calls++
		}
	}
	if calls != 2000-s.Lost || calls < int64(admitted) {
		t.Errorf("%d records of %d calls that were admitted, %d are lost", calls, admitted, s.Lost)
	}
}

// TestPlacesAreReserved: an admitted call is recorded, whatever else happens.
func TestPlacesAreReserved(t *testing.T) {
	t.Parallel()
	out := &moody{}
	failed := make(chan struct{}, 10)
	l := open(t, audit.Config{Out: out, Required: true, Queue: 3, Retry: time.Hour,
		Log: whenSaid("cannot be written", failed)})
	check.Received(t, failed, "a write to fail") // the writer holds the first record
	if l.Reserve() {
		t.Error("admitted while it fails")
	}
	out.take(-1)
	l.Close()

	r, w, err := os.Pipe()
	check.Must(t, err)
	defer r.Close()
	l = open(t, audit.Config{Out: w, Required: true, Queue: 3})
	for range 3 {
		if !l.Reserve() {
			t.Error("refused")
		}
	}
	if l.Reserve() {
		t.Error("a fourth was admitted")
	}
	l.Release()
	if !l.Reserve() {
		t.Error("its place was not given back")
	}
	l.RecordCall(aCall(9), false) // of a rejected call, without a place
	for i := range 3 {
		l.RecordCall(aCall(i), true)
	}
	l.Close()
	if l.Reserve() {
		t.Error("a call was admitted after the end of the log")
	}
	_ = w.Close()
	all, _ := io.ReadAll(r)
	if s := verify(t, all, nil); s.Records != 1+3+1 || s.Lost != 1 {
		t.Errorf("%+v", s)
	}
}

// sizeOf returns the size of a file in bytes; 0 if it does not exist.
func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// TestKilled: the log of a killed process can be continued.
func TestKilled(t *testing.T) {
	if path := flag.Arg(0); path != "" {
		l, err := audit.Open(audit.Config{Path: path})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		before, told := sizeOf(path), false
		for i := 0; ; i++ {
			if i >= 1000 && i%100 == 0 && !told && sizeOf(path) > before { // its start record is written
				fmt.Println("going")
				told = true
			}
			l.RecordCall(aCall(i), false)
		}
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	for round := range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$", path)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		check.Must(t, err)
		if line := make([]byte, 5); true {
			if _, err = io.ReadFull(out, line); err != nil || string(line) != "going" {
				rest, _ := io.ReadAll(out)
				t.Fatalf("%v: %s%s", err, line, rest)
			}
		}
		if err = cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		write(t, path, 1)
		s := verify(t, read(t, path), nil)
		if starts := strings.Count(string(read(t, path)), `"type":"start"`); starts != 2*(round+1) {
			t.Errorf("round %d: %d starts, %+v", round, starts, s)
		}
	}
}
