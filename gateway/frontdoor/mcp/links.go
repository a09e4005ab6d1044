package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"

	grpcstatus "google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/manifest"
)

// maxLinks is the maximum number of URIs of a result that are searched for in the lists of servers.
const maxLinks = 1000

// links rewrites the URIs of links and embedded resources in a result, so that they lead back to its server. What it
// copies is charged. Bytes stay encoded.
type links struct {
	*uris
	ctx        context.Context
	capability string // of the result
	searched   int
	copied     int // bytes
	charged    request.Growing
}

// linksOf returns the links in a result of a capability.
func (u *uris) linksOf(ctx context.Context, capability string) *links {
	return &links{uris: u, ctx: ctx, capability: capability}
}

// hasLinks reports whether content may have links or embedded resources. Letters may be escaped.
func hasLinks(content []byte) bool {
	return bytes.Contains(content, []byte(`"resource`)) || bytes.Contains(content, []byte(`\u`))
}

// link is name for a URI in a result. The URI of a page that no server claims stays as it is: clients can open it.
func (l *links) link(uri string) string {
	scheme := manifest.SchemeOf(uri)
	page := scheme == "http" || scheme == "https"
	err := manifest.CheckURI(uri)
	switch listed := l.lists(scheme); {
	case page && (errors.Is(err, manifest.ErrLongURI) || err == nil && !listed):
		return uri
	case err != nil, strings.HasPrefix(uri, appScheme): // it cannot be read, or is an app
		return qualified(l.capability, uri)
	case listed:
		if l.searched++; l.searched > maxLinks {
			return qualified(l.capability, uri)
		}
	}
	of, ambiguous := l.claimed(uri)
	if page && of == "" && !ambiguous || !isQualified(uri) && l.sole(of, ambiguous) == l.capability {
		return uri
	}
	return qualified(l.capability, uri)
}

// copies charges n bytes before they are copied.
func (l *links) copies(n int) error {
	l.copied += n
	return l.charged.Hold(l.ctx, l.copied)
}

// each replaces the elements of an array for which change returns others, and reports whether there are any.
func (l *links) each(all []json.RawMessage, change func(json.RawMessage) (json.RawMessage, error)) (bool, error) {
	changed := false
	for i := range all {
		if err := l.ctx.Err(); err != nil {
			return false, grpcstatus.FromContextError(err).Err()
		}
		own, err := change(all[i])
		if err != nil {
			return false, err
		}
		if own != nil {
			all[i], changed = own, true
		}
	}
	return changed, nil
}

// array returns an array of JSON with the elements that change returns.
func (l *links) array(text []byte, change func(json.RawMessage) (json.RawMessage, error)) ([]byte, error) {
	if err := l.copies(len(text)); err != nil {
		return nil, err
	}
	var all []json.RawMessage
	if json.Unmarshal(text, &all) != nil {
		return text, nil
	}
	changed, err := l.each(all, change)
	if err != nil || !changed {
		return text, err
	}
	n, parts := 2, make([][]byte, len(all))
	for i := range all {
		n, parts[i] = n+len(all[i])+1, all[i]
	}
	if err := l.copies(n); err != nil {
		return nil, err
	}
	own := make([]byte, 0, n)
	own = append(own, '[')
	for i, part := range parts {
		if i > 0 {
			own = append(own, ',')
		}
		own = append(own, part...)
	}
	return append(own, ']'), nil
}

// items rewrites content, an array without its brackets.
func (l *links) items(items []byte) ([]byte, error) {
	if err := l.copies(len(items) + 2); err != nil {
		return nil, err
	}
	own, err := l.array(append(append(append(make([]byte, 0, len(items)+2), '['), items...), ']'), l.content)
	if err != nil {
		return nil, err
	}
	return itemsOf(own), nil
}

// contents rewrites the contents of a resource.
func (l *links) contents(contents json.RawMessage) (json.RawMessage, error) {
	return l.array(contents, func(of json.RawMessage) (json.RawMessage, error) {
		var members map[string]json.RawMessage
		if json.Unmarshal(of, &members) != nil {
			return nil, nil
		}
		return l.member(members, len(of))
	})
}

// messages rewrites the messages of a prompt.
func (l *links) messages(messages json.RawMessage) (json.RawMessage, error) {
	return l.array(messages, func(of json.RawMessage) (json.RawMessage, error) {
		var m struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		}
		if strictjson.Unmarshal(of, &m) != nil {
			return nil, nil
		}
		own, err := l.content(m.Content)
		if own == nil || err != nil {
			return nil, err
		}
		m.Content = own
		if err := l.copies(len(own) + len(of)); err != nil {
			return nil, err
		}
		return plainjson.Marshal(m)
	})
}

// content returns a content with the caller's URI; nil means it is unchanged.
func (l *links) content(content json.RawMessage) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	var kind string
	if json.Unmarshal(content, &members) != nil || json.Unmarshal(members["type"], &kind) != nil {
		return nil, nil
	}
	switch kind {
	case "resource_link":
		return l.member(members, len(content))
	case "resource":
		var resource map[string]json.RawMessage
		if json.Unmarshal(members["resource"], &resource) != nil {
			return nil, nil
		}
		own, err := l.member(resource, len(content))
		if own == nil || err != nil {
			return nil, err
		}
		if err := l.copies(len(content) + len(own)); err != nil {
			return nil, err
		}
		members["resource"] = own
		return plainjson.Marshal(members)
	}
	return nil, nil
}

// member returns an object whose uri is that of the caller; nil means it is unchanged. size is that of its JSON.
func (l *links) member(members map[string]json.RawMessage, size int) (json.RawMessage, error) {
	var uri string
	if json.Unmarshal(members["uri"], &uri) != nil {
		return nil, nil
	}
	named := l.link(uri)
	if named == uri {
		return nil, nil
	}
	if err := l.copies(2*len(named) + size); err != nil {
		return nil, err
	}
	text, err := plainjson.Marshal(named)
	if err != nil {
		return nil, err
	}
	members["uri"] = text
	return plainjson.Marshal(members)
}
