package recipes_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/recipes"
)

// root is the root of the repository, relative to this package.
const root = "../../.."

// followed lists, by the title of a recipe, the packages to build and test after following it.
var followed = map[string]struct {
	generate    func(*scratch)
	test, build string // packages; "" for none
	run         string // pattern of the tests; "" for all
}{
	"A filter":                 {test: "gateway/filter/toollog", build: "gateway"},
	"A front door":             {test: "gateway/frontdoor/echo", build: "gateway/frontdoor"},
	"An upstream protocol":     {(*scratch).describe, "gateway/upstream/hello", "gateway/upstream/protocols", ""},
	"A source of backends":     {(*scratch).describe, "internal/registry/ports", "internal/app", ""},
	"An admin method":          {generate: (*scratch).method, build: "gateway/admin/summary"},
	"A configuration field":    {generate: (*scratch).describe, build: "gateway/relay/accept"},
	"A feature of the process": {build: "internal/app"},
	"State in Redis":           {generate: (*scratch).keys, test: "internal/redisstore", run: "^TestVisits$"},
	"A stored object":          {(*scratch).object, "gateway/admin/banners", "internal/app", ""},
}

// TestRecipes follows each recipe of the document, and counts its files.
func TestRecipes(t *testing.T) {
	text, err := os.ReadFile(root + "/docs/inside/recipes.md")
	check.Must(t, err)
	all, err := recipes.Read(string(text))
	check.Must(t, err)
	if len(all) != len(followed) {
		t.Errorf("%d recipes, want %d", len(all), len(followed))
	}
	for _, r := range all {
		t.Run(r.Title, func(t *testing.T) {
			s := newScratch(t)
			files := map[string]bool{}
			for _, e := range r.Edits {
				check.Must(t, e.Apply(s.dir))
				files[e.File] = true
			}
			if len(files) != r.Files {
				t.Errorf("the recipe touches %d files, and says %d", len(files), r.Files)
			}
			how, known := followed[r.Title]
			if !known {
				t.Fatal("no command builds this recipe")
			}
			if how.generate != nil {
				how.generate(s)
			}
			if how.build != "" {
				s.build("build", "./"+how.build)
			}
			if how.test != "" {
				program := filepath.Join(filepath.Dir(s.dir), "tests")
				s.build("test", "-c", "-vet=off", "-ldflags", "-s -w", "-o", program, "./"+how.test)
				s.run(filepath.Join(s.dir, how.test), program, "-test.run", how.run)
			}
			for name := range files {
				if strings.HasSuffix(name, ".go") {
					s.formatted(name)
				}
			}
		})
	}
}

// scratch is a copy of the repository.
type scratch struct {
	*testing.T
	dir string
}

func newScratch(t *testing.T) *scratch {
	t.Helper()
	s := &scratch{T: t, dir: filepath.Join(t.TempDir(), "capgate")}
	check.Must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case name == "bin" || name == ".git" || d.Name() == "node_modules":
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return os.MkdirAll(filepath.Join(s.dir, name), 0o750)
		case !d.Type().IsRegular() || !slices.Contains(sources, filepath.Ext(name)):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		to := filepath.Join(s.dir, name)
		if err := os.WriteFile(to, text, 0o600); err != nil {
			return err
		}
		return os.Chtimes(to, time.Time{}, unchanged)
	}))
	return s
}

// sources lists the suffixes of the files that compilers and generators read.
var sources = []string{".go", ".proto", ".json", ".yaml", ".md", ".mod", ".sum", ".acl"}

// unchanged is the modification time of copied files.
var unchanged = time.Unix(1, 0)

// build runs the go command with the files of the copy in place of the repository's, so that packages that did not
// change come from the build cache.
func (s *scratch) build(command string, arguments ...string) {
	s.Helper()
	s.run(root, "go", append([]string{command, "-overlay", s.overlay()}, arguments...)...)
}

func (s *scratch) run(dir, name string, arguments ...string) {
	s.Helper()
	c := exec.CommandContext(s.Context(), name, arguments...)
	c.Dir, c.Env = dir, append(c.Environ(), "GOGC=300") // compilers and linkers take less CPU time so
	if out, err := c.CombinedOutput(); err != nil {
		s.Fatalf("%s %s: %v\n%s", name, strings.Join(arguments, " "), err, out)
	}
}

// overlay writes the file for -overlay with all files that differ from the repository's.
func (s *scratch) overlay() string {
	s.Helper()
	replace := map[string]string{}
	check.Must(s, filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if info, err := d.Info(); err != nil || info.ModTime().Equal(unchanged) {
			return err
		}
		name, _ := filepath.Rel(s.dir, path)
		at, err := filepath.Abs(filepath.Join(root, name))
		if err != nil {
			return err
		}
		is, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if was, err := os.ReadFile(at); err != nil || string(was) != string(is) {
			replace[at] = path
		}
		return nil
	}))
	text, err := json.Marshal(map[string]any{"Replace": replace})
	check.Must(s, err)
	name := filepath.Join(filepath.Dir(s.dir), "overlay.json")
	check.Must(s, os.WriteFile(name, text, 0o600))
	return name
}

// formatted checks that a file is as gofmt writes it.
func (s *scratch) formatted(name string) {
	s.Helper()
	c := exec.CommandContext(s.Context(), "gofmt", "-l", filepath.Join(s.dir, name))
	if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
		s.Errorf("%s is not as gofmt writes it: %v %s", name, err, out)
	}
}

// describe generates the schema and the reference of the configuration.
func (s *scratch) describe() {
	s.Helper()
	program := filepath.Join(filepath.Dir(s.dir), "generate")
	s.build("build", "-o", program, "./internal/config/generate")
	s.run(s.dir, program)
	s.changed("internal/config/schema.json", "docs/run/configuration.md")
}

// keys generates the table of keys for operators, and the permissions of Redis users.
func (s *scratch) keys() {
	s.Helper()
	program := filepath.Join(filepath.Dir(s.dir), "generate")
	s.build("build", "-o", program, "./internal/redisstore/generate")
	s.run(s.dir, program)
	s.changed("docs/run/keys.md", "deploy/redis/users.acl")
}

// method generates the Go code of the protos, for a new method.
func (s *scratch) method() {
	s.Helper()
	s.protos()
	s.changed("proto/capgate/v1/summary.pb.go", "proto/capgate/v1/summary_grpc.pb.go",
		"proto/capgate/v1/summary.pb.gw.go")
}

// object generates the Go code of the protos, the table of keys and the permissions of Redis users.
func (s *scratch) object() {
	s.Helper()
	s.protos()
	s.keys()
}

// protos generates the Go code of the protos.
func (s *scratch) protos() {
	s.Helper()
	tools, err := filepath.Glob(root + "/bin/tools/protoc-*/ok")
	check.Must(s, err)
	buf, err := filepath.Glob(root + "/bin/tools/buf-*/buf")
	if check.Must(s, err); len(buf) == 0 || len(tools) == 0 {
		s.Fatal("bin/tools lacks buf or its plugins, which `make regenerate` builds")
	}
	plugins, err := filepath.Abs(filepath.Dir(tools[0]))
	check.Must(s, err)
	program, err := filepath.Abs(buf[0])
	check.Must(s, err)
	c := exec.CommandContext(s.Context(), program, "generate")
	c.Dir, c.Env = s.dir, append(c.Environ(), "PATH="+plugins)
	if out, err := c.CombinedOutput(); err != nil {
		s.Fatalf("buf generate: %v\n%s", err, out)
	}
}

// changed checks that generated files differ from the repository's.
func (s *scratch) changed(names ...string) {
	s.Helper()
	for _, name := range names {
		was, err := os.ReadFile(filepath.Join(root, name))
		check.Must(s, err)
		is, err := os.ReadFile(filepath.Join(s.dir, name))
		if check.Must(s, err); string(is) == string(was) {
			s.Errorf("%s was not generated again", name)
		}
	}
}
