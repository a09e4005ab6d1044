package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// terminal opens a pseudo terminal: what a person types is written to keys, and a program has the other end.
func terminal(t *testing.T) (keys, program *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	check.Must(t, err)
	t.Cleanup(func() { _ = keys.Close() })
	check.Must(t, unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	check.Must(t, err)
	program, err = os.OpenFile(filepath.Join("/dev/pts", fmt.Sprint(n)), os.O_RDWR|unix.O_NOCTTY, 0)
	check.Must(t, err)
	t.Cleanup(func() { _ = program.Close() })
	return keys, program
}

// TestApprovalsReview: a person reads one approval after another, and answers each with a line. A line typed before an
// approval is shown does not answer it. An approval that has been answered meanwhile is only named.
func TestApprovalsReview(t *testing.T) {
	t.Parallel()
	capability := gatewaytest.NewCapability("first")
	file := writeConfig(t, strings.Replace(configOf("policies: {}\n", capability.Serve(t, call.Doc).Addr),
		"policy: allow", "policy: ask", 1))
	_, public, admin := serve(t, nil, "--config", file)
	client := dial(t, public)
	long := strings.Repeat("all of it has to be seen ", 20) + "the end"
	var ids []string
	for n, args := range []string{fmt.Sprintf(`{"text":%q,"password":"hunter2"}`, long),
		fmt.Sprintf(`{"text":%q,"password":"hunter3"}`, long), `{"n":2}`, `{"n":3}`, `{"n":4}`} {
		ids = append(ids, asked(t, client, fmt.Sprint("user-", n), args))
	}
	if exit, _, errs := capgateApprovals(t, admin, "review"); exit != exitUsage ||
		!strings.Contains(errs, "review needs a terminal") {
		t.Errorf("without a terminal: %d %s", exit, errs)
	}

	s := newReviewSession(t, admin)
	for _, line := range []string{"maybe", "Y seen all\ny typed ahead", "n not before Monday"} {
		s.answer(t, line)
	}
	s.question(t)
	seen, _ := s.stdout.read()
	later := slices.DeleteFunc(ids, func(id string) bool { return strings.Contains(seen, id) })
	if exit, _, errs := capgateApprovals(t, admin, "deny", later[0]); exit != 0 {
		t.Fatal(errs)
	}
	s.answer(t, "s")
	s.answer(t, "q")
	if exit := s.wait(t); exit != 0 {
		t.Errorf("exit status %d", exit)
	}
	text := strings.ReplaceAll(s.stdout.String(), "\r\n", "\n")
	shown := regexp.MustCompile(`(?m)^(apr_\w+): pending$`).FindAllStringSubmatch(text, -1)
	if len(shown) != 4 || !strings.Contains(text, "pending: 5 approvals") ||
		!strings.Contains(text, later[0]+": denied meanwhile (") ||
		!strings.HasSuffix(text, "\n1 approved, 1 denied, 1 skipped\n") {
		t.Fatal(text)
	}
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > reviewColumns {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if words := strings.ReplaceAll(strings.Join(strings.Fields(text), " "), " ↳ ", " "); strings.Count(words,
		long) != 2 || !strings.Contains(words, "[masked: 1 to 8 characters, by its name]") {
		t.Errorf("the arguments are not shown whole: %s", text)
	}
	for n, want := range []string{"approved", "denied", "pending", "pending"} {
		_, out, _ := capgateApprovals(t, admin, "show", shown[n][1])
		reason := []string{"seen all", "not before Monday", "", ""}[n]
		if !strings.HasPrefix(out, shown[n][1]+": "+want) || !strings.Contains(out, reason) ||
			reason != "" && !strings.Contains(out, "by eve") {
			t.Errorf("%d: %s", n, out)
		}
	}
}

// reviewSession is a review in a terminal.
type reviewSession struct {
	*program
	keys    *os.File
	answers int
}

func newReviewSession(t *testing.T, admin string) *reviewSession {
	t.Helper()
	keys, tty := terminal(t)
	cmd := selfCommand(t, "capgate", []string{"CAPGATE_ADMIN=" + admin}, "approvals", "review", "--by", "eve")
	cmd.Stdin, cmd.Stdout = tty, tty
	s := &reviewSession{program: launch(t, cmd), keys: keys}
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(s.stdout, keys) }) // it fails when no program has the terminal
	check.Cleanup(t, func() {
		_ = tty.Close()
		check.Ended(t, &reading, "the terminal")
	})
	return s
}

// wait waits for the end of the program, and then of what it wrote.
func (s *reviewSession) wait(t *testing.T) int {
	t.Helper()
	exit := s.program.wait(t)
	check.UntilEvent(t, "the last line", func() (bool, string, <-chan struct{}) {
		text, grew := s.stdout.read()
		return strings.Contains(text, "skipped\r\n"), text, grew
	})
	return exit
}

// question waits for the next question.
func (s *reviewSession) question(t *testing.T) {
	t.Helper()
	check.UntilEvent(t, "the next question", func() (bool, string, <-chan struct{}) {
		text, grew := s.stdout.read()
		return strings.Count(text, "q: quit > ") > s.answers, text, grew
	})
}

// answer types a line at the next question.
func (s *reviewSession) answer(t *testing.T, line string) {
	t.Helper()
	s.question(t)
	s.answers++
	_, err := s.keys.WriteString(line + "\n")
	check.Must(t, err)
}

// TestManyAnswers: each of several ids is answered and reported by itself, and one failure makes the command fail.
func TestManyAnswers(t *testing.T) {
	t.Parallel()
	capability := gatewaytest.NewCapability("first")
	file := writeConfig(t, strings.Replace(configOf("policies: {}\n", capability.Serve(t, call.Doc).Addr),
		"policy: allow", "policy: ask", 1))
	_, public, admin := serve(t, nil, "--config", file)
	client := dial(t, public)
	one, two := asked(t, client, "ann", `{"n":1}`), asked(t, client, "bob-2", `{"n":2}`)
	if _, list, _ := capgateApprovals(t, admin, "list", "--search", "BOB-"); !strings.Contains(list, two) ||
		strings.Contains(list, one) {
		t.Errorf("found %s", list)
	}
	exit, out, errs := capgateApprovals(t, admin, "approve", one, "apr_none", two, "--by", "eve")
	if exit != exitRefused || strings.Count(out, "approved until ") != 2 || !strings.Contains(out, one+"  approved") ||
		!strings.Contains(out, two+"  approved") || !strings.Contains(errs, `"apr_none": `) ||
		!strings.Contains(errs, "APPROVAL_UNKNOWN") {
		t.Errorf("%d %s%s", exit, out, errs)
	}
	three, four := asked(t, client, "ann", `{"n":3}`), asked(t, client, "ann", `{"n":4}`)
	exit, out, errs = capgateApprovals(t, admin, "deny", three, four, "-o", "json")
	if exit != 0 || strings.Count(out, "\n") != 2 || strings.Count(out, `"state":"denied"`) != 2 {
		t.Errorf("%d %s%s", exit, out, errs)
	}
}
