package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestClientsPage: the programs of the page run as they stand, against a demo.
func TestClientsPage(t *testing.T) {
	t.Parallel()
	_, greeting := startDemo(t)
	public, _ := addresses(greeting)
	f := follow(t, "docs/use/clients.md", nil, "localhost:8080", public)
	f.files()
	f.run("'" + absolute(t, python(t)) + "' -m grpc_tools.protoc -I'" + absolute(t, filepath.Join(root, "proto", "selu",
		"capability")) + "' --python_out=. --grpc_python_out=. capability.proto")
	interpreter := installed(t, "venv", "bin", "python")
	node := filepath.Join(installed(t, "node", "node_modules", nodeBinary()), "bin", "node")
	for file, command := range map[string][]string{
		"call.py": {interpreter, "call.py"}, "stream.py": {absolute(t, python(t)), "stream.py"},
		"call.mts": {node, "call.mts"},
		"call.go":  {"go", "run", "-C", absolute(t, root), filepath.Join(f.dir, "call.go")},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
			cmd.Dir, cmd.Env = f.dir, append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
			out, err := cmd.CombinedOutput()
			want := map[string]int{"call.py": 1, "stream.py": 2, "call.mts": 3, "call.go": 2}[file]
			if got := strings.Count(string(out), "Berlin"); err != nil || got != want {
				t.Errorf("it prints Berlin %d times, want %d; %v\n%s", got, want, err, out)
			}
		})
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	if !strings.ContainsRune(path, filepath.Separator) {
		return path // a program of the PATH
	}
	path, err := filepath.Abs(path)
	check.Must(t, err)
	return path
}
