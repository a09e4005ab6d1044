package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

var goRequirement = regexp.MustCompile(`(?m)^\t(google\.golang\.org/(?:grpc|protobuf)) (v\S+)$`)

// TestCapabilityPage: the page's capabilities in Python and Go conform to the protocol, and callers use them through a
// gateway, with the page's commands alone. Only the packages that the page installs are installed already.
func TestCapabilityPage(t *testing.T) {
	t.Parallel()
	const page = "docs/write/capability.md"
	protoc := t.TempDir()
	put(t, protoc, "protoc", "#!/bin/sh\nexec '"+absolute(t, python(t))+"' -m grpc_tools.protoc \"$@\"\n")
	check.Must(t, os.Chmod(filepath.Join(protoc, "protoc"), 0o700))
	plugins, err := filepath.Glob(filepath.Join(root, "bin", "tools", "protoc-*"))
	check.Must(t, err)
	for i := range plugins {
		plugins[i], err = filepath.Abs(plugins[i])
		check.Must(t, err)
	}
	for language, steps := range map[string][]string{
		"python": {".venv/bin/python -m grpc_tools.protoc"}, "go": {"go mod init units", "go mod tidy"},
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			addr, public, admin := check.ClosedPort(t), check.ClosedPort(t), check.ClosedPort(t)
			f := follow(t, page, append([]string{protoc}, plugins...), "127.0.0.1:50051", addr, "localhost:50051", addr,
				"localhost:8080", public, "fleets:\n", "listen: "+public+"\nadmin: "+admin+"\nfleets:\n")
			f.files()
			if language == "python" {
				check.Must(t, os.Symlink(filepath.Dir(filepath.Dir(installed(t, "venv", "bin", "python"))),
					filepath.Join(f.dir, ".venv")))
			}
			for _, words := range steps {
				f.run(f.replace.Replace(stepWith(t, page, words)))
				if words == "go mod init units" { // a test must not depend on the newest versions
					for _, m := range goRequirement.FindAllStringSubmatch(read(t, "go.mod"), -1) {
						f.run("go mod edit -require=" + m[1] + "@" + m[2])
					}
				}
			}
			f.serve("sh serve=" + language)
			f.run(strings.TrimSpace(f.replace.Replace(stepWith(t, page, "capgate conform"))) + " --timeout 60s")
			gateway := f.serve("sh serve=gateway")
			gateway.stderr.wait(t, gateway, `"backend up"`)
			f.step("sh step=call")
			gateway.stop(t)
		})
	}
}
