package mcpclients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/lib/strictjson"
)

// Client is a program with a file of MCP servers.
type Client struct {
	Name    string // of the command line
	Title   string // for people
	File    string // path below the current directory, with slashes
	Servers string // member of the file with the servers
	address string // member of a server with its URL
	kind    string // member type of a server; "": none
	key     string // how the file refers to the key
}

// All returns the clients.
func All() []Client {
	return []Client{
		{"claude-code", "Claude Code", ".mcp.json", "mcpServers", "url", "http", "${CAPGATE_KEY}"},
		{"cursor", "Cursor", path.Join(".cursor", "mcp.json"), "mcpServers", "url", "", "${env:CAPGATE_KEY}"},
		{"gemini", "Gemini CLI", path.Join(".gemini", "settings.json"), "mcpServers", "httpUrl", "", "$CAPGATE_KEY"},
		{"vscode", "VS Code", path.Join(".vscode", "mcp.json"), "servers", "url", "http", "${input:capgate-key}"},
	}
}

// Entry is the entry of a gateway. All fields but Key are required.
type Entry struct {
	URL, Name string
	Key       bool // the client sends the key of its environment, or of its user
}

// Added returns the text of a client's file with the entry added. before is its current text, nil if there is no file.
func (c *Client) Added(e Entry, before []byte) ([]byte, error) {
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
	if old := file[c.Servers]; old != nil && (json.Unmarshal(old, &servers) != nil || servers == nil) {
		return nil, fmt.Errorf("%s is not a JSON object", c.Servers)
	}
	var err error
	if servers[e.Name], err = json.Marshal(c.server(e)); err == nil {
		file[c.Servers], err = json.Marshal(servers)
	}
	if err == nil && e.Key && strings.Contains(c.key, "input:") {
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

// server returns the server in the client's file.
func (c *Client) server(e Entry) map[string]any {
	server := map[string]any{c.address: e.URL}
	if c.kind != "" {
		server["type"] = c.kind
	}
	if e.Key {
		server["headers"] = map[string]string{"Authorization": "Bearer " + c.key}
	}
	return server
}
