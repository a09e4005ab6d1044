package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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

// Every "sh test" block of the README and of what it points to works against a demo, and prints what the
// "output" block behind it shows, where … stands for anything. Every "yaml test" block
// can be served.
func TestREADME(t *testing.T) {
	t.Parallel()
	p, greeting := startDemo(t)
	public, admin := addresses(greeting)
	ports := strings.NewReplacer("localhost:8080", public, "localhost:8081", admin)
	ran := 0
	for _, file := range []string{"README.md", "docs/rest.md", "docs/openapi.md"} {
		ran += tryBlocks(t, file, ports)
	}
	if ran < 9 {
		t.Errorf("only %d blocks were tested", ran)
	}
	p.stop(t)
}

// tryBlocks does what the blocks of a document say, and counts them.
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

// matches compares what was printed with what a document shows.
func matches(got, shown string) bool {
	pattern := regexp.QuoteMeta(strings.TrimSpace(shown))
	pattern = strings.ReplaceAll(pattern, "…", `(?s:.*?)`)
	return regexp.MustCompile(`^` + pattern + `$`).MatchString(strings.TrimSpace(got))
}

var (
	link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	code = regexp.MustCompile("`([a-z0-9_.]+(/[a-z0-9_.]+)+|[a-z0-9_.]+\\.(go|yaml|yml))`")
)

// What the documents point to is there.
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
			found = append(found, code.FindAllStringSubmatch(text, -1)...)
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
	reasonField = regexp.MustCompile(`\b(?:[Rr]eason(?:,[^=\n]*)?:?\s*=?\s*|refused\()"([A-Z][A-Z_]+)"`)
	reasonWord  = regexp.MustCompile("`([A-Z]+(?:_[A-Z]+)+|DRAINING|OVERLOADED)`")
)

// The README's table has the reasons that the gateway gives, and no others.
func TestREADMEKnowsEveryReason(t *testing.T) {
	t.Parallel()
	given := map[string]bool{}
	for _, pattern := range []string{"gateway/*.go", "gateway/dialect/*.go", "gateway/web/*.go", "router/*.go", "policy/*.go", "policy/approvals/*.go", "policy/shield/*.go", "gateway/approving/*.go", "internal/call/*.go", "internal/tenant/*.go", "internal/tenant/limits/*.go", "router/affinity/*.go", "gateway/relay/handler.go"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text := read(t, strings.TrimPrefix(file, root+string(filepath.Separator)))
			for _, m := range reasonField.FindAllStringSubmatch(text, -1) {
				given[m[1]] = true
			}
			if _, names, ok := strings.Cut(text, "failureNames = "); ok {
				names, _, _ = strings.Cut(names, "}")
				for _, m := range regexp.MustCompile(`"([A-Z_]+)"`).FindAllStringSubmatch(names, -1) {
					given[m[1]] = true
				}
			}
		}
	}
	for _, silent := range []string{
		"INTERNAL", "CLIENT_GONE", "CLIENT_PROTOCOL", "TOO_MANY_BYTES", // nobody is there to read them
	} {
		delete(given, silent)
	}
	_, table, _ := strings.Cut(read(t, "README.md"), "| reason |")
	table, _, _ = strings.Cut(table, "\n\n")
	shown := map[string]bool{}
	for _, m := range reasonWord.FindAllStringSubmatch(table, -1) {
		shown[m[1]] = true
		if !given[m[1]] {
			t.Errorf("the README explains %s, which nobody gives", m[1])
		}
	}
	for reason := range given {
		if !shown[reason] {
			t.Errorf("the README does not explain %s", reason)
		}
	}
	if len(shown) < 15 {
		t.Errorf("found only %d reasons in the README", len(shown))
	}
}
