package tenant

import (
	"context"
	"net/url"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Metadata tells the gateway's own services the caller's identity. The gateway sets it, and removes it from
// every call of a client.
const Metadata = "x-capgate-caller"

// Text encodes an identity as a value of Metadata.
func (i Identity) Text() string {
	v := url.Values{"tenant": {i.Tenant}, "user": {i.User}, "agent": {i.Agent}, "key": {i.Key},
		"scopes": {i.Scopes.String()}}
	if i.Settings != nil {
		v["sees"] = []string{strings.Join(i.Settings.Capabilities.Patterns(), " ")} // patterns have no spaces
	}
	return v.Encode()
}

// ParseIdentity decodes the result of Text. It returns false for other texts. Of the tenant's settings, it has
// the capabilities alone.
func ParseIdentity(text string) (i Identity, ok bool) {
	v, err := url.ParseQuery(text)
	if err != nil || v.Get("tenant") == "" {
		return Identity{}, false
	}
	i = Identity{Tenant: v.Get("tenant"), User: v.Get("user"), Agent: v.Get("agent"), Key: v.Get("key")}
	for name := range strings.SplitSeq(v.Get("scopes"), ",") {
		scope, _ := ParseScope(name)
		i.Scopes |= scope
	}
	if v.Has("sees") {
		i.Settings = &Settings{ID: i.Tenant}
		i.Settings.Capabilities, err = ParseGrants(strings.Fields(v.Get("sees")))
	}
	return i, err == nil
}

// FromContext returns the caller of one of the gateway's own services. The error is a status.
func FromContext(ctx context.Context) (Identity, error) {
	in, _ := metadata.FromIncomingContext(ctx)
	if text := in.Get(Metadata); len(text) == 1 {
		if who, ok := ParseIdentity(text[0]); ok {
			return who, nil
		}
	}
	return Identity{}, status.Error(codes.Internal, "the caller is unknown")
}
