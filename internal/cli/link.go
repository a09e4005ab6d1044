package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capgate/capgate/internal/lib/nearest"
	"github.com/capgate/capgate/internal/lib/weburl"
	"github.com/capgate/capgate/internal/mcpclients"
)

const linkHelp = `CLIENT is claude-code, cursor, gemini or vscode. The entry for the file of its MCP servers is printed;
--write adds it to that file in the current directory, and replaces an entry of the same name. With
--key the entry sends the key in the environment variable CAPGATE_KEY, and vscode asks for it. The key
itself is in no file.`

const linkExample = `  capgate link claude-code
  capgate link cursor --url https://capgate.example.com/mcp --key --write`

// clientEntry is the entry that capgate link makes.
type clientEntry struct {
	mcpclients.Entry
	writes bool
}

// newLinkCommand returns the command capgate link.
func newLinkCommand(std stdio) *cobra.Command {
	l := &clientEntry{}
	c := &cobra.Command{Use: "link CLIENT", Short: "connect an MCP client to a gateway", Long: linkHelp,
		Example: linkExample}
	c.Flags().StringVar(&l.URL, "url", "http://localhost:8080/mcp",
		"`URL` of the gateway's public port; /mcp is added if it lacks it")
	c.Flags().StringVar(&l.Name, "name", "capgate", "`name` of the entry")
	c.Flags().BoolVar(&l.Key, "key", false, "send an API key or a token")
	c.Flags().BoolVar(&l.writes, "write", false, "add the entry to the client's file")
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil // check names the clients
		}
		return checkPositional(c, args)
	}
	c.RunE = func(_ *cobra.Command, args []string) error {
		client, err := l.check(args)
		if err != nil {
			return err
		}
		return l.run(client, std)
	}
	return exits(c, "0 success; 1 the file cannot be changed; 2 wrong command line.")
}

// check returns the client that the command line names.
func (l *clientEntry) check(args []string) (*mcpclients.Client, error) {
	all := mcpclients.All()
	var names []string
	for i := range all {
		names = append(names, all[i].Name)
	}
	if len(args) == 0 {
		return nil, usageError("CLIENT is missing; it is %s", orList(names))
	}
	at := slices.Index(names, args[0])
	if at < 0 {
		return nil, usageError("unknown client %q%s; want %s", args[0], either(nearest.Hint(args[0], names)),
			nearest.List(names, len(names)))
	}
	if _, err := weburl.Parse(l.URL, "https://capgate.example.com/mcp"); err != nil {
		return nil, usageError("--url %s", err)
	}
	l.URL = withPath(l.URL)
	if l.Name == "" {
		return nil, usageError("--name is empty")
	}
	return &all[at], nil
}

// withPath returns a URL with the path of MCP. A URL that a user copies from a browser often lacks it.
func withPath(text string) string {
	u, err := url.Parse(text)
	if err != nil || strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/mcp") || path.Base(path.Dir(u.Path)) == "mcp" {
		return text // with the name of a toolset, too
	}
	return u.JoinPath("mcp").String()
}

func (l *clientEntry) run(c *mcpclients.Client, std stdio) error {
	if !l.writes {
		text, err := c.Added(l.Entry, nil)
		if err == nil {
			fmt.Fprintf(std.err, "%s:\n", c.File)
			_, err = std.out.Write(text)
		}
		return err
	}
	file, mode, before, err := readClient(c)
	if err != nil {
		return fmt.Errorf("read the file of %s: %w", c.Name, err)
	}
	text, err := c.Added(l.Entry, before)
	if err != nil {
		return fmt.Errorf("%s: %w; add the entry yourself, as capgate link %s prints it", c.File, err, c.Name)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // as editors make it
		return fmt.Errorf("make the directory of %s: %w", c.File, err)
	}
	if err := replaceFile(file, text, mode); err != nil {
		return fmt.Errorf("write the file of %s: %w", c.Name, err)
	}
	fmt.Fprintf(std.out, "%s: %s leads to %s\n", c.File, l.Name, l.URL)
	return nil
}

// readClient returns a client's file, which a link may name, with its mode and its text.
func readClient(c *mcpclients.Client) (file string, mode fs.FileMode, text []byte, err error) {
	path := filepath.FromSlash(c.File)
	file, err = filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, 0o644, nil, nil // it has no secret, and is shared with a team
	}
	if err != nil {
		return "", 0, nil, err
	}
	about, err := os.Stat(file)
	if err != nil {
		return "", 0, nil, err
	}
	text, err = os.ReadFile(file)
	return file, about.Mode().Perm(), text, err
}
