package initfiles_test

import (
	"slices"
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

// TestOwnersForCompose: the user of the gateway's container can read the secrets. Files that root writes are the user's
// of the image; otherwise the container has the id of the user that writes them.
func TestOwnersForCompose(t *testing.T) {
	t.Parallel()
	for id, want := range map[int]struct {
		owner int
		user  string
	}{0: {65532, `user: "65532:65532"`}, 1000: {0, `user: "1000:1000"`}} {
		r, err := initfiles.Build("compose", initfiles.Config{Dir: "made", UID: id, GID: id, TLS: true})
		check.Must(t, err)
		secrets := 0
		for _, f := range r.Files {
			secret := strings.HasPrefix(f.Path, "secrets/") || f.Path == "config/tls.key"
			if secret {
				secrets++
			}
			if owner := f.Owner; secret && owner != want.owner || !secret && owner != 0 {
				t.Errorf("user %d: %s is owned by %d", id, f.Path, owner)
			}
			if f.Path == "compose.yaml" && !strings.Contains(f.Text, want.user) {
				t.Errorf("user %d: no %s in\n%s", id, want.user, f.Text)
			}
		}
		if secrets != 3 {
			t.Errorf("user %d: %d secrets", id, secrets)
		}
	}
}

// TestSecretsStayWithTheirOwner: every file with a key, a password or a secret is readable by its owner alone, and
// ignored by git.
func TestSecretsStayWithTheirOwner(t *testing.T) {
	t.Parallel()
	for way, want := range map[string]string{
		"compose": "caller.key config/tls.key operator.key secrets/redis_password secrets/secret_key",
		"kubernetes": "caller.key operator.key secrets/redis_password secrets/secret.key secrets/tls.key " +
			"secrets/users.acl",
		"systemd": "caller.key etc/capgate/secrets/redis_password etc/capgate/secrets/secret.key etc/capgate/tls.key " +
			"operator.key redis-users.acl",
	} {
		r, err := initfiles.Build(way, initfiles.Config{Dir: "made", TLS: true, Redis: "redis://capgate@redis:6379"})
		check.Must(t, err)
		var secret []string
		ignored := ""
		for _, f := range r.Files {
			if f.Mode == 0o600 {
				secret = append(secret, f.Path)
			}
			if f.Path == ".gitignore" {
				ignored = f.Text
			}
		}
		slices.Sort(secret)
		if got := strings.Join(secret, " "); got != want {
			t.Errorf("%s: the owner alone may read %s", way, got)
		}
		if ignored != "secrets/\n*.key\nredis-users.acl\n" {
			t.Errorf("%s: git ignores %q", way, ignored)
		}
	}
}
