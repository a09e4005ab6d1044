package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/testkit/check"
)

// root is the repository's root, relative to this package.
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
	check.Must(t, err)
	return string(text)
}

// documents returns every document of the repository that people read, relative to its root.
func documents(t *testing.T) []string {
	t.Helper()
	all := []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"}
	all = slices.DeleteFunc(all, func(name string) bool {
		_, err := os.Stat(filepath.Join(root, name))
		return err != nil
	})
	for _, folder := range []string{"docs", "deploy", "examples", "bench"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(name string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(name, ".md") {
				all = append(all, strings.TrimPrefix(filepath.ToSlash(name), root+"/"))
			}
			return err
		})
		check.Must(t, err)
	}
	return all
}

// TestSnippets runs the tested blocks of each document against a demo of its own: a document works without the
// others. A block "sh test" must succeed and print the block "output" after it, where … stands for anything. A
// block "yaml test" is a valid configuration. Curl's commands about files work over HTTP/1.1 and over HTTP/2.
func TestSnippets(t *testing.T) {
	t.Parallel()
	tested := regexp.MustCompile("(?m)^```(sh|yaml) test$")
	count := 0
	for _, document := range documents(t) {
		blocks := tested.FindAllString(read(t, document), -1)
		count += len(blocks)
		if len(blocks) == 0 {
			continue
		}
		t.Run(document, func(t *testing.T) {
			t.Parallel()
			if !slices.Contains(blocks, "```sh test") {
				tryBlocks(t, document, "", "")
				return
			}
			p, greeting := startDemo(t)
			public, admin := addresses(greeting)
			tryBlocks(t, document, public, admin)
			if document == "docs/use/files.md" {
				t.Run("HTTP2", func(t *testing.T) {
					needCurl(t)
					tryBlocks(t, document, public, admin, "curl ", "curl --http2-prior-knowledge ")
				})
			}
			p.stop(t)
		})
	}
	if count < 40 {
		t.Errorf("only %d blocks are tested", count)
	}
}

// tryBlocks executes the tested blocks of a document, with the ports of a demo in place of the default ones,
// and with other words replaced.
func tryBlocks(t *testing.T, document, public, admin string, replace ...string) {
	t.Helper()
	ports := strings.NewReplacer(append(replace, "localhost:8080", public, "localhost:8081", admin,
		"capgate invoke ", "capgate invoke --addr "+public+" ", "capgate verify ", "capgate verify --addr "+public+
			" ")...)
	all := blocks(t, document)
	for i, b := range all {
		switch b.info {
		case "sh test":
			env := []string{"CAPGATE_ADMIN=" + admin}
			if strings.Contains(b.text, "$CAPGATE_KEY") { // the demo's admin API accepts any credential
				key, _ := makeKey(t)
				env = append(env, "CAPGATE_KEY="+key)
			}
			output, exit := shell(t, ports.Replace(b.text), env...)
			if exit != 0 {
				t.Errorf("%s:%d: exit status %d: %s", document, b.line, exit, output)
			}
			if i+1 < len(all) && strings.HasSuffix(all[i+1].info, " output") && !matches(output, all[i+1].text) {
				t.Errorf("%s:%d prints\n%s\nand not\n%s", document, b.line, output, all[i+1].text)
			}
		case "yaml test":
			file := filepath.Join(t.TempDir(), "capgate.yaml")
			check.Must(t, os.WriteFile(file, []byte(b.text), 0o600))
			if exit, _, stderr := runProgram(t, nil, "check", "--config", file); exit != 0 {
				t.Errorf("%s:%d: %s", document, b.line, stderr)
			}
		}
	}
}

// matches compares output with a document's.
func matches(got, shown string) bool {
	pattern := regexp.QuoteMeta(strings.TrimSpace(shown))
	pattern = strings.ReplaceAll(pattern, "…", `(?s:.*?)`)
	return regexp.MustCompile(`^` + pattern + `$`).MatchString(strings.TrimSpace(got))
}

var (
	literal    = regexp.MustCompile(`"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|DRAINING|OVERLOADED|INTERNAL)"`)
	reasonWord = regexp.MustCompile("`([A-Z][A-Z_]+)`")
)

// docs/errors.md explains exactly the reasons that the gateway returns. Every word of that form in the code
// counts as a reason, except those of other protocols.
func TestEveryReasonIsExplained(t *testing.T) {
	t.Parallel()
	given := map[string]string{}
	for _, folder := range []string{"gateway", "router", "policy", "internal", "health"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".go") ||
				strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, filepath.Join(root, "internal", "cli")) {
				return err
			}
			for _, m := range literal.FindAllStringSubmatch(read(t,
				strings.TrimPrefix(file, root+string(filepath.Separator))), -1) {
				given[m[1]] = file
			}
			return nil
		})
		check.Must(t, err)
	}
	for _, other := range []string{
		"ENABLE_PUSH", "INITIAL_WINDOW_SIZE", "MAX_FRAME_SIZE", "PUSH_PROMISE", "INADEQUATE_SECURITY", // HTTP/2
	} {
		delete(given, other)
	}
	for name := range given {
		// of the environment
		if strings.HasPrefix(name, "CAPGATE_") || strings.HasPrefix(name, "SELU_") || strings.HasPrefix(name, "XDG_") ||
			strings.HasPrefix(name, "OTEL_") || strings.HasSuffix(name, "_PROXY") {
			delete(given, name)
		}
	}
	for name := range code.Code_value {
		if name != "DEADLINE_EXCEEDED" && name != "INTERNAL" { // which are reasons too
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
					t.Errorf("docs/errors.md explains %s, which the gateway never returns", m[1])
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
		if row := fmt.Sprintf("\n| `%s` | %d |\n", code.Code(c), status.HTTP(c)); !strings.Contains(text, row) {
			t.Errorf("docs/errors.md has not%s", row)
		}
	}
}

// The README stays short: everything else is in docs.
func TestREADMEIsShort(t *testing.T) {
	t.Parallel()
	if lines := strings.Count(read(t, "README.md"), "\n"); lines > 250 {
		t.Errorf("README.md has %d lines, and may have 250", lines)
	}
}
