package cli

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/capgate/capgate/internal/settings"
)

const bundleHelp = `The archive has what helps to find a fault: versions, the configuration, readiness, the state of
fleets, limits, metrics, and what the process does, as its admin API says it. It names tenants, tools and
backends. It has no credentials, and no arguments or results of calls.

Of the configuration, URLs are cut after the host, hashes and comments are left out, and files that it
names are not read. It has the names and mail addresses of operators. The log is copied as it is. What
could not be read is in errors.txt. The command needs a viewer of all tenants.`

// bundleCommand is capgate support-bundle.
type bundleCommand struct {
	stdio
	port      *gatewayPort
	file, log string // --config and --log
	to        string // the archive
	errs      []string
}

// newBundleCommand returns the command capgate support-bundle.
func newBundleCommand(std stdio) *cobra.Command {
	b := &bundleCommand{stdio: std}
	c := &cobra.Command{Use: "support-bundle", Short: "collect what helps to find a fault, without secrets",
		Long: bundleHelp}
	b.port = addAdmin(c)
	c.Flags().StringVar(&b.file, "config", "", "also the configuration in this `file`")
	c.Flags().StringVar(&b.log, "log", "", "also the last 4 MiB of the log in this `file`")
	c.Flags().StringVar(&b.to, "to", "", "`file` of the archive; default capgate-support-TIME.tar.gz")
	c.RunE = func(c *cobra.Command, _ []string) error { return b.run(c.Context()) }
	return exits(c, "0 success; 1 the archive cannot be written; 2 wrong command line; 3 it has nothing of the "+
		"gateway.")
}

// bundled are parts that a gateway has, by their file.
var bundled = []struct{ file, path string }{
	{"ready.json", "/readyz?verbose"},
	{"summary.json", "/v1/summary"},
	{"fleets.json", "/v1/fleets?backends=50&page_size=1000"},
	{"limits.json", "/v1/limits"},
	{"capabilities.json", "/v1/capabilities?page_size=1000"},
	{"metrics.txt", "/metrics"},
	{"goroutines.txt", "/debug/pprof/goroutine?debug=1"},
	{"heap.pprof", "/debug/pprof/heap"},
}

// Maximum sizes of parts, in bytes.
const (
	maxBundled = 32 << 20
	maxLog     = 4 << 20
)

func (b *bundleCommand) run(ctx context.Context) error {
	if err := b.port.read(); err != nil {
		return err
	}
	now := time.Now().UTC()
	if b.to == "" {
		b.to = "capgate-support-" + now.Format("20060102T150405Z") + ".tar.gz"
	}
	f, err := os.OpenFile(b.to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return refused("%s cannot be written: %w", b.to, reasonOf(err))
	}
	compressed := gzip.NewWriter(f)
	archive := tar.NewWriter(compressed)
	folder := strings.TrimSuffix(path.Base(b.to), ".tar.gz")
	var failed error
	put := func(name string, text []byte) {
		h := &tar.Header{Name: folder + "/" + name, Mode: 0o600, Size: int64(len(text)), ModTime: now}
		failed = errors.Join(failed, archive.WriteHeader(h))
		_, err := archive.Write(text)
		failed = errors.Join(failed, err)
	}
	got := b.parts(ctx, put)
	failed = errors.Join(failed, archive.Close(), compressed.Close(), f.Close())
	if failed != nil {
		_ = os.Remove(b.to)
		return refused("%s cannot be written: %w", b.to, reasonOf(failed))
	}
	fmt.Fprintf(b.out, "%s is written. Look through it before you pass it on.\n", b.to)
	for _, text := range b.errs {
		fmt.Fprintf(b.err, "missing: %s\n", text)
	}
	if got == 0 {
		return quiet(exitUnreachable)
	}
	return nil
}

// parts puts all parts into the archive. It returns how many are from the gateway.
func (b *bundleCommand) parts(ctx context.Context, put func(name string, text []byte)) (got int) {
	version, err := json.MarshalIndent(versionOfProgram(), "", " ")
	b.add("version.json", version, err, put)
	if b.file != "" {
		text, err := bundledConfig(b.file)
		b.add("capgate.yaml", text, err, put)
	}
	if b.log != "" {
		text, err := lastOf(b.log, maxLog)
		b.add("log.txt", text, err, put)
	}
	for _, part := range bundled {
		text, err := b.fetch(ctx, part.path)
		if b.add(part.file, text, err, put) {
			got++
		}
	}
	if len(b.errs) > 0 {
		put("errors.txt", []byte(strings.Join(b.errs, "\n")+"\n"))
	}
	return got
}

// add puts a part into the archive, or takes note of why it is missing.
func (b *bundleCommand) add(name string, text []byte, err error, put func(name string, text []byte)) bool {
	if err != nil {
		b.errs = append(b.errs, name+": "+err.Error())
		return false
	}
	put(name, text)
	return true
}

// fetch returns what the gateway says at a path. A gateway that is not ready says so with 503.
func (b *bundleCommand) fetch(ctx context.Context, path string) ([]byte, error) {
	resp, err := b.port.send(ctx, http.MethodGet, path, http.NoBody)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxBundled+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxBundled:
		return nil, fmt.Errorf("is longer than %d MiB", maxBundled>>20)
	case resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable:
		return nil, errors.New(resp.Status)
	}
	return text, nil
}

// bundledConfig returns a valid configuration without what may be secret, and the problems of another.
func bundledConfig(file string) ([]byte, error) {
	data, err := settings.Files{}.Read(file)
	if err != nil {
		return nil, err
	}
	if _, _, err := settings.Check(file, data); err != nil {
		return nil, fmt.Errorf("the configuration is left out, as it is not valid: %w", err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, err
	}
	withoutSecrets(&document, "")
	return yaml.Marshal(&document)
}

// urls matches a URL: the scheme, the host, and the rest. It drops the account.
var urls = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*://)(?:[^/?#]*@)?([^/?#@]*)(.*)$`)

// withoutSecrets removes comments, cuts URLs after their host, and removes hashes of keys. All else that a valid
// configuration has are names, numbers, and files with secrets.
func withoutSecrets(n *yaml.Node, field string) {
	n.HeadComment, n.LineComment, n.FootComment = "", "", ""
	if n.Kind == yaml.ScalarNode {
		if field == "hash" {
			n.SetString("(removed)")
		} else if found := urls.FindStringSubmatch(n.Value); found != nil {
			value := found[1] + found[2]
			if strings.Trim(found[3], "/") != "" {
				value += "/(removed)"
			}
			n.SetString(value)
		}
		return
	}
	for i, part := range n.Content {
		switch {
		case n.Kind != yaml.MappingNode:
			withoutSecrets(part, field)
		case i%2 == 0:
			withoutSecrets(part, "")
		default:
			withoutSecrets(part, n.Content[i-1].Value)
		}
	}
}

// lastOf returns the last bytes of a file, from the begin of a line.
func lastOf(file string, most int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, reasonOf(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	from := max(info.Size()-most, 0)
	text, err := io.ReadAll(io.NewSectionReader(f, from, most))
	if from > 0 {
		text = text[slices.Index(text, '\n')+1:]
	}
	return text, err
}
