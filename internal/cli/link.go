package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capgate/capgate/internal/lib/nearest"
	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/lib/weburl"
)

const linkHelp = `CLIENT is claude-code, cursor, gemini or vscode. The entry for the file of its MCP servers is printed;
--write adds it to that file in the current directory, and replaces an entry of the same name. With
--key the entry sends the key in the environment variable CAPGATE_KEY, and vscode asks for it. The key
itself is in no file.`

const linkExample = `  capgate link claude-code
  capgate link cursor --url https://capgate.example.com/mcp --key --write`

// mcpClient is a program with a file of MCP servers.
type mcpClient struct {
	name, file string
	servers    string // member with the servers
	address    string // member of a server with its URL
	kind       string // member type of a server; "": none
	key        string // how the file refers to the key
}

// mcpClients returns the clients that capgate link supports.
func mcpClients() []mcpClient {
	return []mcpClient{
		{"claude-code", ".mcp.json", "mcpServers", "url", "http", "${CAPGATE_KEY}"},
		{"cursor", filepath.Join(".cursor", "mcp.json"), "mcpServers", "url", "", "${env:CAPGATE_KEY}"},
		{"gemini", filepath.Join(".gemini", "settings.json"), "mcpServers", "httpUrl", "", "$CAPGATE_KEY"},
		{"vscode", filepath.Join(".vscode", "mcp.json"), "servers", "url", "http", "${input:capgate-key}"},
	}
}

// clientEntry is the entry that capgate link makes.
type clientEntry struct {
	url, name   string
	key, writes bool
}

// newLinkCommand returns the command capgate link.
func newLinkCommand(std stdio) *cobra.Command {
	l := &clientEntry{}
	c := &cobra.Command{Use: "link CLIENT", Short: "connect an MCP client to a gateway", Long: linkHelp,
		Example: linkExample}
	c.Flags().StringVar(&l.url, "url", "http://localhost:8080/mcp", "`URL` of MCP at the gateway's public port")
	c.Flags().StringVar(&l.name, "name", "capgate", "`name` of the entry")
	c.Flags().BoolVar(&l.key, "key", false, "send an API key or a token")
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
func (l *clientEntry) check(args []string) (*mcpClient, error) {
	all := mcpClients()
	var names []string
	for i := range all {
		names = append(names, all[i].name)
	}
	if len(args) == 0 {
		return nil, usageError("CLIENT is missing; it is %s", orList(names))
	}
	at := slices.Index(names, args[0])
	if at < 0 {
		return nil, usageError("unknown client %q%s; want %s", args[0], either(nearest.Hint(args[0], names)),
			nearest.List(names, len(names)))
	}
	if _, err := weburl.Parse(l.url, "https://capgate.example.com/mcp"); err != nil {
		return nil, usageError("--url %s", err)
	}
	if l.name == "" {
		return nil, usageError("--name is empty")
	}
	return &all[at], nil
}

func (l *clientEntry) run(c *mcpClient, std stdio) error {
	if !l.writes {
		text, err := l.added(c, nil)
		if err == nil {
			fmt.Fprintf(std.err, "%s:\n", c.file)
			_, err = std.out.Write(text)
		}
		return err
	}
	file, mode, before, err := c.read()
	if err != nil {
		return fmt.Errorf("read the file of %s: %w", c.name, err)
	}
	text, err := l.added(c, before)
	if err != nil {
		return fmt.Errorf("%s: %w; add the entry yourself, as capgate link %s prints it", c.file, err, c.name)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // as editors make it
		return fmt.Errorf("make the directory of %s: %w", c.file, err)
	}
	if err := replaceFile(file, text, mode); err != nil {
		return fmt.Errorf("write the file of %s: %w", c.name, err)
	}
	fmt.Fprintf(std.out, "%s: %s leads to %s\n", c.file, l.name, l.url)
	return nil
}

// read returns the client's file, which a link may name, with its mode and its text.
func (c *mcpClient) read() (file string, mode fs.FileMode, text []byte, err error) {
	file, err = filepath.EvalSymlinks(c.file)
	if errors.Is(err, fs.ErrNotExist) {
		return c.file, 0o644, nil, nil // it has no secret, and is shared with a team
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

// added returns the text of a file with the entry added. before is its current text, nil if there is no file.
func (l *clientEntry) added(c *mcpClient, before []byte) ([]byte, error) {
	file := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(before)) > 0 {
		if err := strictjson.Check(before); err != nil {
			return nil, fmt.Errorf("the text %w", err)
		}
		if json.Unmarshal(before, &file) != nil || file == nil {
			return nil, errors.New("the text is not a JSON object")
		}
	}
	servers := map[string]json.RawMessage{}
	if old := file[c.servers]; old != nil && (json.Unmarshal(old, &servers) != nil || servers == nil) {
		return nil, fmt.Errorf("%s is not a JSON object", c.servers)
	}
	var err error
	if servers[l.name], err = json.Marshal(l.entry(c)); err == nil {
		file[c.servers], err = json.Marshal(servers)
	}
	if err == nil && l.key && strings.Contains(c.key, "input:") {
		file["inputs"], err = withKeyInput(file["inputs"])
	}
	if err != nil {
		return nil, err
	}
	return plainjson.Indent(file)
}

// withKeyInput returns the inputs of VS Code with a prompt for the key. before may be nil.
func withKeyInput(before json.RawMessage) (json.RawMessage, error) {
	var all []json.RawMessage
	if before != nil && (json.Unmarshal(before, &all) != nil || all == nil) {
		return nil, errors.New("inputs is not a JSON array")
	}
	for _, one := range all {
		var input struct{ ID string }
		if json.Unmarshal(one, &input) == nil && input.ID == "capgate-key" {
			return before, nil
		}
	}
	return json.Marshal(append(all, json.RawMessage(`{"type":"promptString","id":"capgate-key",`+
		`"description":"API key of capgate","password":true}`)))
}

// entry returns the server in the client's file.
func (l *clientEntry) entry(c *mcpClient) map[string]any {
	entry := map[string]any{c.address: l.url}
	if c.kind != "" {
		entry["type"] = c.kind
	}
	if l.key {
		entry["headers"] = map[string]string{"Authorization": "Bearer " + c.key}
	}
	return entry
}
