package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// image is the result of a Dockerfile, built without Docker: the test executes its instructions in order, each stage in
// its own directory.
type image struct {
	root       string // of the last stage
	user       string
	entrypoint string
	command    []string

	t       *testing.T
	context string            // of the build: the repository without the files in .dockerignore
	stages  map[string]string // directories
	workdir string            // in the stage
	args    map[string]string // ARG, with the values of --build-arg
	env     []string
}

// buildImage executes a Dockerfile. This machine serves as the base images.
func buildImage(t *testing.T, dockerfile string, args map[string]string) *image {
	t.Helper()
	return buildImageOf(t, "..", dockerfile, args)
}

// buildImageOf executes the Dockerfile in a directory of the repository.
func buildImageOf(t *testing.T, dir, dockerfile string, args map[string]string) *image {
	t.Helper()
	return buildImageOn(t, nil, buildContext(t, dir), dockerfile, args)
}

// buildImageOn executes a Dockerfile with a directory of files as the context, and with images that were built before.
func buildImageOn(t *testing.T, images map[string]*image, dir, dockerfile string, args map[string]string) *image {
	t.Helper()
	b := &image{t: t, context: dir, stages: map[string]string{}, args: map[string]string{}}
	text, err := os.ReadFile(dockerfile)
	check.Must(t, err)
	joined := strings.ReplaceAll(regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(string(text), ""), "\\\n", "")
	for line := range strings.Lines(joined) {
		instruction, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		words := strings.Fields(rest)
		switch instruction {
		case "":
		case "FROM":
			b.root, b.workdir = t.TempDir(), "/"
			if base := images[words[0]]; base != nil {
				b.user, b.entrypoint, b.command, b.env = base.user, base.entrypoint, base.command,
					slices.Clone(base.env)
				command(t, "cp", "-a", base.root+"/.", b.root)
			}
			if len(words) == 3 && words[1] == "AS" {
				b.stages[words[2]] = b.root
			}
		case "WORKDIR":
			b.workdir = words[0]
			check.Must(t, os.MkdirAll(b.in(b.workdir), 0o755))
		case "ARG":
			for _, word := range words {
				name, value, _ := strings.Cut(word, "=")
				b.args[name] = value
			}
			maps.Copy(b.args, args)
		case "COPY":
			b.copy(words)
		case "RUN":
			b.run(rest)
		case "ENV":
			b.env = append(b.env, rest)
		case "USER":
			b.user = rest
		case "ENTRYPOINT":
			var all []string
			check.Must(t, json.Unmarshal([]byte(rest), &all))
			b.entrypoint, b.command = all[0], all[1:]
		case "CMD":
			b.command = []string{strings.Trim(rest, `[]"`)}
		case "EXPOSE":
		default:
			t.Fatalf("%s: unknown instruction %s", dockerfile, instruction)
		}
	}
	return b
}

// in returns the path of a file of the stage.
func (b *image) in(name string) string {
	if !path.IsAbs(name) {
		name = path.Join(b.workdir, name)
	}
	return filepath.Join(b.root, name)
}

func (b *image) copy(words []string) {
	b.t.Helper()
	from, owner := b.context, ""
	if chown, ok := strings.CutPrefix(words[0], "--chown="); ok {
		owner, words = chown, words[1:]
	}
	if stage, ok := strings.CutPrefix(words[0], "--from="); ok {
		from, words = b.stages[stage], words[1:]
	}
	last := len(words) - 1
	to := b.in(words[last])
	if strings.HasSuffix(words[last], "/") {
		check.Must(b.t, os.MkdirAll(to, 0o755))
	}
	for _, name := range words[:last] {
		source := filepath.Join(from, name)
		if _, err := os.Stat(source); err != nil && from != b.context {
			source = name // the base image is this machine
		}
		if name == "." {
			source += "/."
		}
		command(b.t, "cp", "-a", source, to)
		if owner != "" && os.Geteuid() == 0 {
			command(b.t, "chown", "-R", owner, filepath.Join(to, filepath.Base(source)))
		}
	}
}

// run runs a command in a shell, as Docker does. Absolute paths of the stage's own directories are replaced.
func (b *image) run(line string) {
	b.t.Helper()
	line = strings.ReplaceAll(line, " /out/", " "+b.root+"/out/")
	cmd := exec.CommandContext(b.t.Context(), "/bin/sh", "-c", "PATH="+pythons+":$PATH; "+line)
	cmd.Dir = b.in(".")
	cmd.Env = cmd.Environ()
	for name, value := range b.args {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		b.t.Fatalf("RUN %s: %v\n%s", line, err, out)
	}
}

// buildContext returns a copy of the repository's files, except those that .dockerignore names.
func buildContext(t *testing.T, from string) string {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join(from, ".dockerignore"))
	check.Must(t, err)
	ignored := strings.Fields(string(text))
	files, _ := command(t, "git", "-C", from, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	for file := range strings.SplitSeq(strings.TrimRight(files, "\x00"), "\x00") {
		if isIgnored(ignored, file) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(from, file))
		if os.IsNotExist(err) {
			continue // deleted, but not committed yet
		}
		check.Must(t, err)
		check.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755))
		check.Must(t, os.WriteFile(filepath.Join(dir, file), data, 0o644))
	}
	return dir
}

// isIgnored reports whether the last pattern that matches a file excludes it.
func isIgnored(patterns []string, file string) (away bool) {
	for _, pattern := range patterns {
		pattern, back := strings.CutPrefix(pattern, "!")
		if ignores(pattern, file) {
			away = !back
		}
	}
	return away
}

func ignores(pattern, file string) bool {
	if matches, _ := path.Match(pattern, file); matches {
		return true
	}
	if name, deep := strings.CutPrefix(pattern, "**/"); deep {
		matches, _ := path.Match(name, path.Base(file))
		return matches
	}
	return file == pattern || strings.HasPrefix(file, pattern+"/")
}

// start runs the image: in its root and as its user, if the tests have the rights.
func (b *image) start(t *testing.T, args ...string) *process {
	t.Helper()
	if os.Geteuid() != 0 {
		return start(t, b.root+b.entrypoint, append(b.command, args...)...)
	}
	return startIn(t, b.root, b.user, b.env, b.entrypoint, append(b.command, args...)...)
}

// TestImages: the images are built according to the Dockerfiles, and run from scratch as an unprivileged user: the
// gateway of one image calls the demonstration capability of the other.
func TestImages(t *testing.T) {
	t.Parallel()
	weather := buildImage(t, "compose/weather.Dockerfile", nil)
	log := weather.start(t, "--listen", "127.0.0.1:0").wait(t, "127.0.0.1:")
	addr := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(log)

	gateway := buildImage(t, "../Dockerfile", map[string]string{"VERSION": "1.2.3"})
	files, err := filepath.Glob(gateway.root + "/*")
	check.Must(t, err)
	if len(files) != 2 { // capgate, and etc with the certificate authorities
		t.Errorf("the image has %v", files)
	}
	check.Must(t, os.WriteFile(gateway.root+"/capgate.yaml",
		fmt.Appendf(nil, "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\ndrain: {delay: 0s}\nfleets: [{capability: "+
			"weather, policy: allow, backends: ['%s']}]\n", addr), 0o644))
	p := gateway.start(t)
	public := attribute(p.wait(t, `"msg":"serving"`), "listen")
	check.Succeeds(t, "a call", func() error {
		out, err := exec.CommandContext(t.Context(), gateway.root+"/capgate", "invoke", "--addr", public, "weather",
			"get_current_weather", `{"location":"Berlin"}`).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "Germany") {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})

	if out, _ := command(t, gateway.root+"/capgate", "version"); !strings.Contains(out, "1.2.3") {
		t.Errorf("version: %s", out)
	}
	check.Must(t, p.cmd.Process.Signal(os.Interrupt))
	check.Received(t, p.exited, "the end of the process")
	if !p.cmd.ProcessState.Success() {
		t.Errorf("the program ended with %v", p.cmd.ProcessState)
	}
}

// pythons lists the Python programs with which the Python images begin: tools/setup installs their packages.
var pythons, _ = filepath.Abs("../bin/venv/bin")

// TestPythonImages: the Python examples work as images built according to their Dockerfiles.
func TestPythonImages(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"python-live", "python-legacy"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, _ := command(t, capgate, "probe", startPython(t, name), "--timeout", "30s", "--manifest",
				"../examples/"+name); !strings.Contains(out, strings.TrimPrefix(name, "python-")) {
				t.Errorf("probe: %s", out)
			}
		})
	}
}

// startPython runs the image of an example in Python, and returns its address.
func startPython(t *testing.T, name string) (addr string) {
	t.Helper()
	if exec.CommandContext(t.Context(), pythons+"/python", "-c", "import grpc, grpc_tools.protoc").Run() != nil {
		if os.Getenv("CI") == "true" { //nolint:forbidigo // CI must not skip it
			t.Fatal("no Python with grpcio and grpcio-tools: tools/setup installs it")
		}
		t.Skip("no Python with grpcio and grpcio-tools: make setup installs it where it can")
	}
	dir := filepath.Join("../examples", name)
	b := buildImageOf(t, dir, filepath.Join(dir, "Dockerfile"), nil)
	cmd := exec.CommandContext(t.Context(), filepath.Join(pythons, b.entrypoint),
		append(b.command, "--listen", "127.0.0.1:0")...)
	cmd.Dir = b.in(".")
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	cmd.Env = append(cmd.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1")
	port := regexp.MustCompile(`port (\d+)`).FindStringSubmatch(launch(t, cmd).wait(t, "\n"))
	if port == nil || b.user != "65532:65532" {
		t.Fatalf("no port is declared, or the user is %q; port %+v", b.user, port)
	}
	return "127.0.0.1:" + port[1]
}
