package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway"
)

// root is the repository's, seen from this package.
const root = "../.."

// block is a fenced block of a document.
type block struct {
	info string // "sh test"
	text string
	line int
}

func blocks(t *testing.T, file string) []block {
	t.Helper()
	var all []block
	var open *block
	for i, line := range strings.Split(read(t, file), "\n") {
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && open == nil:
			open = &block{info: info, line: i + 1}
		case fence:
			all = append(all, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: the block is not closed", file, open.line)
	}
	return all
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every "sh test" block of the README and of linked documents works against a demo, and prints the "output" block
// after it, where … stands for anything. Every "yaml test" block is a valid configuration.
func TestREADME(t *testing.T) {
	t.Parallel()
	p, greeting := startDemo(t)
	public, admin := addresses(greeting)
	ports := strings.NewReplacer("localhost:8080", public, "localhost:8081", admin)
	ran := 0
	for _, file := range []string{"README.md", "docs/rest.md", "docs/openapi.md", "docs/idempotency.md"} {
		ran += tryBlocks(t, file, ports)
	}
	if ran < 9 {
		t.Errorf("only %d blocks were tested", ran)
	}
	p.stop(t)
}

// The curl commands of docs/files.md work over HTTP/1.1 and over HTTP/2.
func TestFilesByCurl(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl, and what stands in for it sends no files")
	}
	p, greeting := startDemo(t)
	public, _ := addresses(greeting)
	for _, curl := range []string{"curl ", "curl --http2-prior-knowledge "} {
		if ran := tryBlocks(t, "docs/files.md", strings.NewReplacer("localhost:8080", public, "curl ", curl)); ran < 4 {
			t.Errorf("only %d blocks were tested", ran)
		}
	}
	p.stop(t)
}

// tryBlocks executes the blocks of a document, and counts them.
func tryBlocks(t *testing.T, document string, ports *strings.Replacer) (ran int) {
	all := blocks(t, document)
	for i, b := range all {
		switch b.info {
		case "sh test":
			ran++
			output, exit := shell(t, ports.Replace(b.text))
			if exit != 0 {
				t.Errorf("%s:%d: exit status %d: %s", document, b.line, exit, output)
			}
			if i+1 < len(all) && strings.HasSuffix(all[i+1].info, " output") && !matches(output, all[i+1].text) {
				t.Errorf("%s:%d prints\n%s\nand not\n%s", document, b.line, output, all[i+1].text)
			}
		case "yaml test":
			ran++
			file := filepath.Join(t.TempDir(), "capgate.yaml")
			if err := os.WriteFile(file, []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if exit, _, stderr := runProgram(t, nil, "check", "--config", file); exit != 0 {
				t.Errorf("%s:%d: %s", document, b.line, stderr)
			}
		}
	}
	return ran
}

// matches compares output with a document's.
func matches(got, shown string) bool {
	pattern := regexp.QuoteMeta(strings.TrimSpace(shown))
	pattern = strings.ReplaceAll(pattern, "…", `(?s:.*?)`)
	return regexp.MustCompile(`^` + pattern + `$`).MatchString(strings.TrimSpace(got))
}

var (
	link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	file = regexp.MustCompile("`([a-z0-9_.]+(/[a-z0-9_.]+)+|[a-z0-9_.]+\\.(go|yaml|yml))`")
)

// Files that the documents link to exist.
func TestDocumentsPointToWhatIsThere(t *testing.T) {
	t.Parallel()
	relay, err := os.ReadDir(filepath.Join(root, "gateway", "relay"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]bool{}
	for _, f := range relay {
		files[f.Name()] = true
	}
	for _, document := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"} {
		text := read(t, document)
		found := link.FindAllStringSubmatch(text, -1)
		if document == "ARCHITECTURE.md" {
			found = append(found, file.FindAllStringSubmatch(text, -1)...)
		}
		for _, m := range found {
			_, err := os.Stat(filepath.Join(root, m[1]))
			if err != nil && !files[m[1]] && !strings.HasSuffix(m[1], "wire.go") {
				t.Errorf("%s: %s: %v", document, m[1], err)
			}
		}
	}
}

var (
	literal    = regexp.MustCompile(`"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|DRAINING|OVERLOADED|INTERNAL)"`)
	reasonWord = regexp.MustCompile("`([A-Z][A-Z_]+)`")
)

// docs/errors.md explains the reasons that the gateway gives, and no others. Every word of that form in
// the code is taken for a reason but for those of other protocols.
func TestEveryReasonIsExplained(t *testing.T) {
	t.Parallel()
	given := map[string]string{}
	for _, folder := range []string{"gateway", "router", "policy", "internal", "health"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".go") ||
				strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, filepath.Join(root, "internal", "gatewaytest")) {
				return err
			}
			for _, m := range literal.FindAllStringSubmatch(read(t,
				strings.TrimPrefix(file, root+string(filepath.Separator))), -1) {
				given[m[1]] = file
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range []string{
		"ENABLE_PUSH", "INITIAL_WINDOW_SIZE", "MAX_FRAME_SIZE", "PUSH_PROMISE", "INADEQUATE_SECURITY", // HTTP/2
	} {
		delete(given, other)
	}
	for name := range code.Code_value {
		if name != "DEADLINE_EXCEEDED" && name != "INTERNAL" { // which are reasons, too
			delete(given, name)
		}
	}
	shown := map[string]bool{}
	for _, table := range strings.Split(read(t, "docs/errors.md"), "| reason |")[1:] {
		table, _, _ = strings.Cut(table, "\n\n")
		for _, row := range strings.Split(strings.TrimSpace(table), "\n")[2:] {
			cells := strings.Split(row, "|")
			for _, m := range reasonWord.FindAllStringSubmatch(cells[1], -1) {
				if given[m[1]] == "" {
					t.Errorf("docs/errors.md explains %s, which nobody gives", m[1])
				}
				if shown[m[1]] {
					t.Errorf("docs/errors.md explains %s twice", m[1])
				}
				shown[m[1]] = true
			}
		}
	}
	for reason, file := range given {
		if !shown[reason] {
			t.Errorf("docs/errors.md does not explain %s of %s", reason, file)
		}
	}
	if len(shown) < 100 {
		t.Errorf("found only %d reasons", len(shown))
	}
}

// docs/errors.md has the HTTP status of every gRPC code.
func TestEveryCodeIsShown(t *testing.T) {
	t.Parallel()
	text := read(t, "docs/errors.md")
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		if row := fmt.Sprintf("\n| `%s` | %d |\n", code.Code(c), gateway.HTTPStatus(c)); !strings.Contains(text, row) {
			t.Errorf("docs/errors.md has not%s", row)
		}
	}
}
