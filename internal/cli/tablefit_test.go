//go:build linux

package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/capgate/capgate/internal/testkit/check"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// openTerminal returns a terminal with the given number of columns.
func openTerminal(t *testing.T, columns uint16) *os.File {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	check.Must(t, err)
	check.Must(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	check.Must(t, err)
	terminal, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	check.Must(t, err)
	check.Must(t, unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: 24}))
	t.Cleanup(func() {
		_ = terminal.Close()
		_ = master.Close()
	})
	return terminal
}

// someFleets returns fleets with long names and reasons.
func someFleets() *capgatepb.ListFleetsResponse {
	all := &capgatepb.ListFleetsResponse{Gateway: &capgatepb.RespondingReplica{Replica: "me", Redis: "ok"}}
	for i, state := range []string{"up", "down", "draining", "ejected"} {
		all.Fleets = append(all.Fleets, &capgatepb.Fleet{Capability: fmt.Sprint("a-capability-with-a-long-name-", i),
			Backends: []*capgatepb.Backend{{Addr: "backend.of.the.namespace.svc.cluster.local:50051", State: state,
				LatencyMs: 1.5, ProbedBy: "a-replica-with-a-long-name",
				Why: "the health check says: the database is away, for 20 minutes"}}})
	}
	return all
}

// TestTablesFitTheTerminal: no line of a table is wider than the terminal, and states have colors there. Other outputs
// have whole lines without colors.
func TestTablesFitTheTerminal(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	for _, columns := range []uint16{80, 100, 200} {
		var table strings.Builder
		printFleets(&table, someFleets(), time.Now(), openTerminal(t, columns))
		text := table.String()
		for _, code := range []string{bold, green, red, yellow, plain} {
			text = strings.ReplaceAll(text, code, "")
		}
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > int(columns) {
				t.Errorf("%d of %d columns: %s", n, columns, line)
			}
		}
		for _, want := range []string{red + "down" + plain, green + "up" + plain, yellow + "draining" + plain,
			red + "ejected" + plain} {
			if !strings.Contains(table.String(), want) {
				t.Errorf("%d columns: %q is missing in %q", columns, want, table.String())
			}
		}
		words := strings.Join(strings.Fields(text), "")
		if !strings.Contains(words, "minutes") || (columns == 80) != strings.Contains(text, "not shown: PROBED BY") {
			t.Errorf("%d columns: %s", columns, text)
		}
	}
	t.Setenv("NO_COLOR", "1")
	var plainTable, file strings.Builder
	printFleets(&plainTable, someFleets(), time.Now(), openTerminal(t, 80))
	printFleets(&file, someFleets(), time.Now(), &file)
	if strings.Contains(plainTable.String()+file.String(), "\x1b") || !strings.Contains(file.String(),
		"  a-replica-with-a-long-name  the health check says: the database is away, for 20 minutes\n") {
		t.Errorf("%s\n%s", plainTable.String(), file.String())
	}
}

// TestIdsStayWhole: an id is never broken, so that it can be copied. A column without values gives way first.
func TestIdsStayWhole(t *testing.T) {
	t.Parallel()
	table := newTable("ID", "NAME", "EMPTY", "SPARE")
	table.width, table.spare = 50, []string{"SPARE"}
	table.row("apr_"+strings.Repeat("x", 30), "a name of several words", "", "more words")
	var got strings.Builder
	table.print(&got)
	want := "ID" + strings.Repeat(" ", 34) + "NAME\n" +
		"apr_" + strings.Repeat("x", 30) + "  a name of\n" + strings.Repeat(" ", 36) + "several words\n" +
		"not shown: SPARE; a wider terminal or -o json has them\n"
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

// TestAnEmptyTableIsASentence: a list without items prints what it lacks, not a header alone.
func TestAnEmptyTableIsASentence(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	table := newTable("ID", "NAME")
	table.none = "no keys"
	table.print(&b)
	if b.String() != "no keys\n" {
		t.Errorf("%q", b.String())
	}
}
