package check

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSummaryNamesEachFailure: tools/summary names the tests that failed, timed out or crashed, with the command that
// repeats each, and exits like the command.
func TestSummaryNamesEachFailure(t *testing.T) {
	t.Parallel()
	const of = "github.com/capgate/capgate/"
	repeat := func(test, pkg string) string {
		return "\n    go test -race -count=1 -run '^" + test + "$' ./" + pkg + "\n"
	}
	for name, tt := range map[string]struct {
		log  string
		want string // after the head
	}{
		"failed, one of them in a part": {"--- FAIL: TestA (0.01s)\n    --- FAIL: TestA/b (0.00s)\n        x.go:3: " +
			"x\n--- FAIL: TestC (0.00s)\nFAIL\nFAIL\t" + of + "x\t0.1s\n",
			"  ./x TestA" + repeat("TestA", "x") + "  ./x TestC" + repeat("TestC", "x")},
		"out of time": {"--- FAIL: TestA (0.01s)\npanic: test timed out after 2s\n\trunning tests:\n\t\tTestSlow " +
			"(1s)\n\t\tTestSlow/a_b (1s)\n\t\tTestLast (2s)\n\ngoroutine 5 [running]:\n" + of + "x.TestOther(0x1)\n" +
			"\tx_test.go:3 +0x1\nFAIL\t" + of + "x\t2s\n",
			"  ./x TestA" + repeat("TestA", "x") + "  ./x TestSlow: ran into the timeout (1s)" +
				repeat("TestSlow", "x") + "  ./x TestLast: ran into the timeout (2s)" + repeat("TestLast", "x")},
		"crashed in a goroutine": {"panic: boom [recovered, repanicked]\n\ngoroutine 8 [running]:\n" + of +
			"a/x.run()\n\tx.go:3 +0x1\n" + of + "a/x.TestCrash.func1()\n\tx_test.go:3 +0x1\nFAIL\t" + of +
			"a/x\t0.1s\n", "  ./a/x TestCrash: panic: boom [recovered, repanicked]" + repeat("TestCrash", "a/x")},
		"crashed beside tests": {"panic: boom\n\ngoroutine 8 [running]:\n" + of + "x.run()\n\tx.go:3 +0x1\nFAIL\t" +
			of + "x\t0.1s\n", "  ./x: panic: boom\n    go test ./x\n"},
		"not built": {"FAIL\t" + of + "x [build failed]\n", "  ./x: does not build\n    go test ./x\n"},
		"killed":    {"signal: killed\nFAIL\t" + of + "x\t3s\n", "  ./x: ended without a result\n    go test ./x\n"},
		"after another package": {"panic: in a log\n--- FAIL: TestZ (0s)\nok  \t" + of +
			"w\t1s\n--- FAIL: TestA (0s)\nFAIL\nFAIL\t" + of + "x\t1s\nok  \t" + of + "y\t1s\n", "  ./x TestA" +
			repeat("TestA", "x")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, stderr, status := summary(t, tt.log, 7)
			if out != tt.log || status != 7 {
				t.Errorf("exit %d, output %q", status, out)
			}
			if want := "\nfailed tests, and how to repeat them:\n" + tt.want; !strings.HasSuffix(stderr, want) {
				t.Errorf("got %s\nwant %s", stderr, want)
			}
		})
	}
}

// TestSummaryNamesTheLongestPackages: tools/summary prints the ten packages that took longest, also after a success.
func TestSummaryNamesTheLongestPackages(t *testing.T) {
	t.Parallel()
	const of = "github.com/capgate/capgate/"
	log := "ok  \t" + of + "cached\t(cached)\nFAIL\t" + of + "unbuilt [build failed]\nok  \t" + of + "short\t0.012s\n"
	for i := range 8 {
		log += fmt.Sprintf("ok  \t%sp%d\t%d.5s\n", of, i, i)
	}
	log += "FAIL\t" + of + "a/b\t100.25s\nok  \t" + of + "covered\t9.1s\tcoverage: 3%\n"
	_, stderr, status := summary(t, log, 0)
	want := "\nthe longest packages:\n    100.2s  a/b\n      9.1s  covered\n"
	for i := 7; i >= 0; i-- {
		want += fmt.Sprintf("  %7.1fs  p%d\n", float64(i)+0.5, i)
	}
	if stderr != want || status != 0 {
		t.Errorf("exit %d\ngot %s\nwant %s", status, stderr, want)
	}
}

// summary runs tools/summary with a command that prints log and exits with a status.
func summary(t *testing.T, log string, exit int) (out, stderr string, status int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	Must(t, os.WriteFile(path, []byte(log), 0o600))
	cmd := exec.CommandContext(Context(t), "../../../tools/summary", "sh", "-c",
		fmt.Sprint("cat ", path, "; exit ", exit))
	var text strings.Builder
	cmd.Stderr = &text
	printed, _ := cmd.Output()
	return string(printed), text.String(), cmd.ProcessState.ExitCode()
}
