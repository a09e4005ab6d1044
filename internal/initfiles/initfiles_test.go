package initfiles_test

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/initfiles"
	"github.com/capgate/capgate/internal/testkit/check"
)

// paths returns the files of a result by path.
func paths(t *testing.T, way string, c initfiles.Config) (files map[string]string, next string) {
	t.Helper()
	c.Dir = "made"
	r, err := initfiles.Build(way, c)
	check.Must(t, err)
	files = map[string]string{}
	for _, f := range r.Files {
		files[f.Path] = f.Text
	}
	return files, r.Next
}

// TestUnitOfThePackage: the packaged program has a unit, and no other is written. The program of go run is not
// installed, as it is temporary.
func TestUnitOfThePackage(t *testing.T) {
	t.Parallel()
	const unit = "etc/systemd/system/capgate.service"
	for program, want := range map[string]string{"/usr/bin/capgate": "", "/usr/local/bin/capgate": "",
		"/root/it's": `install -m 755 '/root/it'\''s' /usr/local/bin`, "/tmp/go-build1/exe/capgate": "make build && "} {
		files, next := paths(t, "systemd", initfiles.Config{Program: program})
		if (files[unit] == "") != (program == "/usr/bin/capgate") {
			t.Errorf("%s: the unit is %q", program, files[unit])
		}
		if !strings.Contains(next, want) || want == "" && strings.Contains(next, "install -m") {
			t.Errorf("%s: %s", program, next)
		}
	}
}

// TestImageWithDigest: a kustomization has a digest or a tag, not both.
func TestImageWithDigest(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]string{"reg:5000/gw:1": `"reg:5000/gw", newTag: "1"`,
		"reg:5000/gw:1@sha256:ab": `"reg:5000/gw", digest: "sha256:ab"`,
		"reg:5000/gw@sha256:ab":   `"reg:5000/gw", digest: "sha256:ab"`} {
		if files, _ := paths(t, "kubernetes", initfiles.Config{Image: image}); !strings.Contains(
			files["kustomization.yaml"], "newName: "+want) {
			t.Errorf("%s: %s", image, files["kustomization.yaml"])
		}
	}
}
