// Package initfiles builds the files that capgate init --for writes: those of package deploy, with secrets, keys and
// certificates of their own.
//
//	initfiles.go   what is built, and for which way of running
//	compose.go     for Docker compose
//	kubernetes.go  for kubectl apply -k
//	systemd.go     for a unit of systemd
//	secrets.go     secrets, keys and a certificate
//	write.go       files on disk, all or none
package initfiles

import (
	_ "embed"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/capgate/capgate/deploy"
	"github.com/capgate/capgate/gateway/upstream/protocols"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/settings"
)

// Example is the configuration that capgate init writes without --for.
//
//go:embed capgate.yaml
var Example string

// Config says what to build.
type Config struct {
	Dir   string   // where the files will be, for the commands of Result.Next
	Hosts []string // names and addresses of the gateway besides localhost
	TLS   bool     // makes a self-signed certificate for the public port
	Image string   // of the gateway
	// Namespace is that of the objects for Kubernetes. "": that of kubectl.
	Namespace string
	Redis     string // URL; "": the Redis of the result, or an embedded one
	Program   string // path of the running capgate
	UID       int    // user id of the process, the owner of the files
	GID       int
}

// Result is a set of files.
type Result struct {
	Files     []File
	Next      string   // commands that start the gateway, and call a tool
	Undecided []string // what production needs and the operator must decide
}

// File is a file to be written.
type File struct {
	Path  string // below the directory, with slashes
	Mode  fs.FileMode
	Text  string
	Owner int // UID and GID if root writes the file; 0: root
}

// ways lists the ways of running a gateway.
var ways = []struct {
	name  string
	build func(c Config) (*builder, error)
}{
	{"compose", forCompose},
	{"kubernetes", forKubernetes},
	{"systemd", forSystemd},
}

// Ways returns the names of the ways of running a gateway, for Build.
func Ways() (names []string) {
	for _, w := range ways {
		names = append(names, w.name)
	}
	return names
}

// Build returns the files for a way of running a gateway. The name must be one of Ways.
func Build(way string, c Config) (*Result, error) {
	for _, w := range ways {
		if w.name != way {
			continue
		}
		b, err := w.build(c)
		if err != nil {
			return nil, fmt.Errorf("files for %s: %w", way, err)
		}
		return b.result()
	}
	return nil, fmt.Errorf("%q is not a way of running a gateway; want one of %s", way, strings.Join(Ways(), ", "))
}

// builder collects the files of a result.
type builder struct {
	Config
	files     []File
	config    string // path of the configuration
	next      string
	undecided []string
}

func (b *builder) add(path string, mode fs.FileMode, text string) {
	b.files = append(b.files, File{Path: path, Mode: mode, Text: text})
}

// result lists what the configuration lacks for production.
func (b *builder) result() (*Result, error) {
	b.add(".gitignore", 0o644, "secrets/\n*.key\nredis-users.acl\n")
	r := &Result{Files: b.files, Next: b.next, Undecided: b.undecided}
	for _, f := range b.files {
		if f.Path != b.config {
			continue
		}
		c, err := config.Parse(f.Path, []byte(f.Text), protocols.Config()...)
		if err != nil {
			return nil, err
		}
		missing, _ := settings.Production(f.Path, c, 0)
		for _, err := range missing {
			r.Undecided = append(r.Undecided, err.Error())
		}
	}
	return r, nil
}

// deployed returns a file of package deploy, with replacements. Each must replace something.
func deployed(path string, pairs ...string) (string, error) {
	text, err := fs.ReadFile(deploy.Files, path)
	if err != nil {
		return "", err
	}
	return replaced(path, string(text), pairs...)
}

func replaced(path, text string, pairs ...string) (string, error) {
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			return "", fmt.Errorf("%s has no %q", path, pairs[i])
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text, nil
}

// addDeployed adds the files below a path of package deploy.
func (b *builder) addDeployed(root, to string) error {
	return fs.WalkDir(deploy.Files, root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(deploy.Files, path)
		b.add(to+strings.TrimPrefix(path, root), 0o644, string(text))
		return err
	})
}

// production returns the fields of a configuration that production needs, except those that differ in each way of
// running: the secret, an operator, a tenant with a key, limits and the audit log.
func (b *builder) production(secretFile, audit, tlsDir string) string {
	text := fmt.Sprintf(`
# Signs what is in Redis, so that write access to it is not enough to forge rules, keys and approvals.
secret_file: %s
# The key is in caller.key. capgate keys new prints others.
tenants:
  - id: main
    capabilities: ["*"]
    keys:
      - %s
limits: {calls_per_second: 100, concurrent: 50} # of each tenant without limits of its own
audit: {to: %s}
`, secretFile, b.newKey("caller.key", "first"), audit)
	if b.TLS {
		text += fmt.Sprintf("tls: {cert_file: %s/tls.crt, key_file: %[1]s/tls.key}\n", tlsDir)
	}
	return text
}

// hosts returns the field hosts with the names of the gateway; "": it has none.
func (b *builder) hosts() string {
	names := b.names()
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("hosts: [%s] # names at which the public port answers besides localhost\n",
		strings.TrimSuffix(lines("%q, ", names), ", "))
}

// operators returns the field operators with a new key.
func (b *builder) operators(metrics string) string {
	return "operators:\n" + metrics + "  keys: # the key is in operator.key\n    - " +
		strings.TrimSuffix(b.newKey("operator.key", "first"), "}") + ", roles: [admin]}\n"
}

// OwnImage is the image that docker build makes in a clone.
const OwnImage = "capgate"

// buildImage returns a step for an image that no registry has; "": it is another one.
func (b *builder) buildImage() string {
	if b.Image != OwnImage {
		return ""
	}
	return "build the image in a clone, where the cluster or Docker has it, or name another one with --image:\n" +
		"     docker build -t " + OwnImage + " ."
}

// steps numbers the steps that are not empty.
func steps(all ...string) string {
	var text strings.Builder
	for i, step := range slices.DeleteFunc(all, func(step string) bool { return step == "" }) {
		fmt.Fprintf(&text, "  %d. %s\n", i+1, step)
	}
	return text.String()
}

// call returns a command that calls the demonstration capability. The certificate is below the directory.
func (b *builder) call(certificate string) string {
	curl, scheme := "curl", "http"
	if b.TLS {
		curl, scheme = "curl --cacert "+quoted(b.Dir+"/"+certificate), "https"
	}
	return fmt.Sprintf("%s %s://localhost:8080/v1/capabilities/weather/tools/get_current_weather \\\n"+
		"       -H \"authorization: Bearer $(cat %s/caller.key)\" -d '{\"location\":\"Berlin\"}'", curl, scheme,
		quoted(b.Dir))
}

// plain matches words that a shell takes as they are.
var plain = regexp.MustCompile(`^[a-zA-Z0-9_./:@%+,-]+$`)

// quoted returns a path as a word of a shell's command.
func quoted(path string) string {
	if plain.MatchString(path) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
