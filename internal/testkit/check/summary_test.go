package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSummaryNamesEachFailure: tools/summary names the tests that failed, ran into the timeout or crashed, with the
// command that repeats each, and fails as the command does.
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
			log := filepath.Join(t.TempDir(), "log")
			Must(t, os.WriteFile(log, []byte(tt.log), 0o600))
			cmd := exec.CommandContext(Context(t), "../../../tools/summary", "sh", "-c", "cat "+log+"; exit 7")
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, _ := cmd.Output()
			if string(out) != tt.log || cmd.ProcessState.ExitCode() != 7 {
				t.Errorf("exit %d, output %q", cmd.ProcessState.ExitCode(), out)
			}
			if want := "\nfailed tests, and how to repeat them:\n" + tt.want; stderr.String() != want {
				t.Errorf("got %s\nwant %s", stderr.String(), want)
			}
		})
	}
}
