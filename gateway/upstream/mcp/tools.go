package mcp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/lib/untrusted"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/toolschema"
)

// maxPages is the maximum number of pages of a server's list of tools.
const maxPages = 100

// tool holds the used fields of a listed tool.
type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"inputSchema"`
	Output      json.RawMessage `json:"outputSchema"`
	manifest.Extras
}

// title returns the title; empty means none.
func (t *tool) title() (title string) {
	_ = json.Unmarshal(t.Title, &title) // a title of another type is omitted
	return title
}

// tools requests the tools of the server. A separate session has no cached list in the SDK. It declares all questions
// that the fleet allows, and apps, because some servers list a tool only for clients that answer its questions or show
// its app. If such a server
// asks meanwhile, it gets an error.
func (v *server) tools(ctx context.Context) (*listed, error) {
	ctx, _ = withNote(ctx)
	cs, err := v.connect(ctx, v.client(v.settings.questions()|apps), true)
	if err != nil {
		return nil, v.notStarted(ctx, err)
	}
	defer v.abandon(cs)
	var list []json.RawMessage
	err = v.pages(ctx, cs, toolListing(), func(page []json.RawMessage) { list = append(list, page...) })
	if err != nil {
		return nil, err
	}
	v.taskTools.Store(taskToolsIn(cs, list))
	sum := sumOf(list)
	if before := v.listed.Load(); before != nil && before.sum == sum {
		return before, nil
	}
	release, err := v.all.Work.Acquire(ctx, v.fleet.Capability)
	if err != nil {
		return nil, upstream.Ended(err)
	}
	defer release()
	all := []upstream.Discovered{}
	var leftOut []error
	for _, one := range list {
		if ctx.Err() != nil {
			return nil, upstream.Ended(ctx.Err())
		}
		var wrong error
		if all, wrong = v.add(all, one); wrong != nil {
			leftOut = append(leftOut, wrong)
		}
	}
	tools, err := plainjson.Marshal(all)
	if len(tools) > manifest.MaxBytes {
		v.all.Log.Warn("titles, icons, annotations and _meta of the tools of an MCP server were left out: they are "+
			"too long", "capability", v.fleet.Capability, "backend", v.url)
		for i := range all {
			all[i].Extras = nil
		}
		tools, err = plainjson.Marshal(all)
	}
	if err != nil {
		return nil, err
	}
	found := &listed{sum, tools, upstream.LeftOut(leftOut, v.transport.secrets())}
	v.listed.Store(found)
	return found, nil
}

// listed is the last list of a server.
type listed struct {
	sum     [sha256.Size]byte // of the server's list
	tools   []byte            // in the form of a discovery tool's response
	leftOut []byte            // which tools were omitted, and why
}

func sumOf(list []json.RawMessage) (sum [sha256.Size]byte) {
	hash := sha256.New()
	for _, one := range list {
		_ = binary.Write(hash, binary.BigEndian, uint64(len(one)))
		_, _ = hash.Write(one)
	}
	hash.Sum(sum[:0])
	return sum
}

// wrongList is the error of a list that exceeds a limit, or is not valid.
type wrongList struct{ text string }

func wrong(format string, args ...any) error { return &wrongList{fmt.Sprintf(format, args...)} }

// Error implements error.
func (e *wrongList) Error() string { return e.text }

// GRPCStatus returns the error for gRPC.
func (e *wrongList) GRPCStatus() *status.Status { return status.New(codes.Internal, e.text) }

// pages requests all pages of a list, within its limits.
func (v *server) pages(ctx context.Context, cs *sdk.ClientSession, of listing, page func([]json.RawMessage)) error {
	seen := map[string]bool{"": true}
	size, items, cursor := 0, 0, ""
	for n := 0; n == 0 || cursor != ""; n++ {
		if n == maxPages {
			return wrong("the MCP server's list of %s has more than %d pages", of.what, maxPages)
		}
		raw, err := v.page(ctx, cs, of, cursor)
		if err != nil {
			return err
		}
		var list map[string]json.RawMessage
		var all []json.RawMessage
		cursor = ""
		if json.Unmarshal(raw, &list) != nil || json.Unmarshal(orNull(list[of.member]), &all) != nil ||
			json.Unmarshal(orNull(list["nextCursor"]), &cursor) != nil {
			return wrong("the MCP server's list of %s is not valid for %s", of.what, of.method)
		}
		size, items = size+len(raw), items+len(all)
		if size > manifest.MaxBytes || items > manifest.MaxTools {
			return wrong("the MCP server lists more than %d %s, or than %d bytes of them", manifest.MaxTools, of.what,
				manifest.MaxBytes)
		}
		page(all)
		if cursor != "" && seen[cursor] {
			return wrong("the MCP server's list of %s repeats a page", of.what)
		}
		seen[cursor] = true
	}
	return nil
}

// orNull returns a member, or null if it is missing.
func orNull(member json.RawMessage) json.RawMessage {
	if member == nil {
		return json.RawMessage("null")
	}
	return member
}

// page requests one page of a list.
func (v *server) page(ctx context.Context, cs *sdk.ClientSession, of listing, cursor string) ([]byte, error) {
	ctx, seen := withNote(ctx)
	ex, end := begin(ctx, of.method, nil)
	defer end()
	of.request(ex.ctx, cs, cursor)
	code, raw, refused := ex.answer()
	switch {
	case raw != nil && refused == nil:
		return raw, nil
	case ctx.Err() != nil:
		return nil, upstream.Ended(ctx.Err())
	case refused != nil && code != 0:
		return nil, status.Error(codes.Internal, refused.Error())
	}
	return nil, ex.failureStatus(seen)
}

// add appends a tool, unless capgate cannot support it: that does not affect the others. The error is the reason.
func (v *server) add(all []upstream.Discovered, raw json.RawMessage) ([]upstream.Discovered, error) {
	var t tool
	if json.Unmarshal(raw, &t) != nil {
		return all, v.leaveOut("", errors.New("a member has the wrong type for a tool"))
	}
	if s := bytes.TrimSpace(t.Schema); len(s) == 0 || string(s) == "null" {
		t.Schema = json.RawMessage(`{"type":"object"}`)
	}
	if _, err := toolschema.CompileLenient(t.Output); err != nil { // the tool works without it
		t.Output = nil
	}
	found := upstream.Discovered{Name: t.Name, Description: cmp.Or(t.Description, t.title(), t.Name), Schema: t.Schema,
		Output: t.Output, Extras: t.Sound()}
	_, err := upstream.Check(found)
	for i := range all {
		if all[i].Name == found.Name {
			err = errors.New("the server lists two tools with this name")
		}
	}
	if err != nil {
		return all, v.leaveOut(t.Name, err)
	}
	return append(all, found), nil
}

// leaveOut logs why a tool is omitted, and returns the reason for the catalog.
func (v *server) leaveOut(name string, err error) error {
	name = untrusted.Clip(name, maxName)
	v.all.Log.Warn("a tool of an MCP server was left out", "capability", v.fleet.Capability, "backend", v.url,
		"tool", name, "error", err)
	return fmt.Errorf("the tool %q: %w", name, err)
}

// maxName is the number of bytes of a tool's invalid name that are logged.
const maxName = 64
