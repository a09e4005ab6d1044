package router

import (
	"fmt"
	"strings"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/nearest"
)

// Key holds every part of a call that may name its capability. Empty fields name
// nothing. Resolve keeps none of the strings, so they may be views of a buffer.
type Key struct {
	Metadata  string // metadata x-capability-id
	Message   string // InvokeRequest.capability_id, once the first message is read
	Authority string // :authority, port included
	Listener  string // what the listener is for that the call came in at
	Service   string // gRPC service, "package.Service"
	Foreign   bool   // Service belongs neither to the gateway nor to a protocol that it supports
}

// maxLabel is the longest label of a host name in bytes (RFC 1035 §2.3.4), and so
// the longest capability id.
const maxLabel = 63

// maxCompared bounds the names that are compared with an unknown one, since callers may send many.
const maxCompared = 100

// Viewer decides which capabilities exist for a caller. It must not block.
type Viewer interface{ Sees(capability string) bool }

// Resolve finds the fleet that a key names, among those that exist for the caller. The refusal for
// another one equals that for one that does not exist. Metadata, message, the first label of an
// authority within one of the table's domains and the listener each name a capability; all that are present must
// agree. Only when none is present does the service's fleet take the call: a caller that names a
// capability means it, whatever the service. A foreign service without a fleet does not exist, as at any gRPC server.
func (t *Table) Resolve(k Key, by Viewer) (*Fleet, *call.Refusal) {
	name := k.Metadata
	if name == "" {
		name = k.Message
	} else if k.Message != "" && k.Message != name {
		return nil, t.conflict(k)
	}
	label := t.label(k.Authority)
	if k.Listener != "" {
		if name != "" && name != k.Listener || label != "" && !strings.EqualFold(label, k.Listener) {
			return nil, t.conflict(k)
		}
		name = k.Listener
	}
	if label == "" && name == "" {
		if f := t.services[k.Service]; f != nil && by.Sees(f.Capability) {
			return f, nil
		}
		if k.Foreign {
			return nil, serviceUnknown
		}
		return nil, t.noKey
	}
	if name == "" {
		return t.byLabel(label, by)
	}
	if label != "" && !strings.EqualFold(label, name) {
		return nil, t.conflict(k)
	}
	if f := t.index.find(name); f != nil && by.Sees(f.Capability) {
		return f, nil
	}
	return nil, t.unknown(name, by)
}

// unknown refuses a name, and suggests the closest one that the caller may see.
func (t *Table) unknown(name string, by Viewer) *call.Refusal {
	var seen []string
	for _, f := range t.Fleets()[:min(len(t.Fleets()), maxCompared)] {
		if by.Sees(f.Capability) {
			seen = append(seen, f.Capability)
		}
	}
	return call.UnknownCapability(name, nearest.To(name, seen))
}

// Names reports whether the metadata, the authority or the listener of a key name a capability.
func (t *Table) Names(k Key) bool {
	return k.Metadata != "" || k.Listener != "" || t.label(k.Authority) != ""
}

// label returns the first label of an authority within one of the domains, or "". Host names are
// case-insensitive (RFC 9110 §4.2.3) and may end with the root's dot.
func (t *Table) label(authority string) string {
	if len(t.domains) == 0 {
		return ""
	}
	host := authority
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		host = host[:i]
	}
	label, rest, ok := strings.Cut(strings.TrimSuffix(host, "."), ".")
	if !ok {
		return ""
	}
	for _, d := range t.domains {
		if strings.EqualFold(rest, d) {
			return label
		}
	}
	return ""
}

// byLabel finds a capability by a label in any case. The lower-case copy stays on the stack.
func (t *Table) byLabel(label string, by Viewer) (*Fleet, *call.Refusal) {
	var lower [maxLabel]byte
	if len(label) <= maxLabel {
		for i := range len(label) {
			c := label[i]
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			lower[i] = c
		}
		if f := t.index.find(string(lower[:len(label)])); f != nil && by.Sees(f.Capability) {
			return f, nil
		}
	}
	return nil, t.unknown(label, by)
}

// conflict returns the refusal of a key that names several capabilities.
func (t *Table) conflict(k Key) *call.Refusal {
	r := &call.Refusal{Kind: call.InvalidArgument, Reason: "ROUTING_KEY_CONFLICT", Metadata: map[string]string{}}
	var named []string
	for _, n := range [...]struct{ key, words, name string }{
		{"metadata", "metadata x-capability-id", k.Metadata},
		{"message", "capability_id of the message", k.Message},
		{"authority", ":authority", t.label(k.Authority)},
		{"listener", "the listener", k.Listener},
	} {
		if n.name != "" {
			r.Metadata[n.key] = call.Quote(n.name)
			named = append(named, fmt.Sprintf("%s says %q", n.words, call.Quote(n.name)))
		}
	}
	r.Message = "the call names more than one capability: " + strings.Join(named, ", ")
	return r
}

// keyMissing returns the refusal of a key that names no capability.
func keyMissing(domains []string) *call.Refusal {
	ways := "metadata x-capability-id or capability_id in an InvokeRequest"
	if len(domains) > 0 {
		ways = "metadata x-capability-id, capability_id in an InvokeRequest, or the authority <capability>." +
			domains[0]
	}
	return &call.Refusal{
		Kind:    call.InvalidArgument,
		Reason:  "ROUTING_KEY_MISSING",
		Message: "the call names no capability, and no fleet is configured for its service; name one by " + ways,
	}
}

// serviceUnknown is the refusal of a foreign service that no fleet has, and of a key that names no capability.
var serviceUnknown = &call.Refusal{
	Kind:   call.Unimplemented,
	Reason: "METHOD_UNKNOWN",
	Message: "no fleet is configured for this gRPC service, and the call names no capability; services in the " +
		"configuration of a fleet can list it, or metadata x-capability-id can name the capability",
}
