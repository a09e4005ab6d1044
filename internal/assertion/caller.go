package assertion

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/capgate/capgate/internal/lib/untrusted"
)

// Header is the header, or the metadata, of an assertion. A caller's own is never forwarded.
const Header = "x-capgate-assertion"

// Caller describes the caller of a request. The zero value is a caller of whom nothing is known.
type Caller struct {
	// Gateway is true for a request that no caller caused, such as a health check. The other fields are empty then.
	Gateway bool
	// Verified is true if a credential, a session or the listener vouches for User.
	Verified bool
	// Operator is the name of the operator that makes the call in the playground; empty means none. User and Agent are
	// those that the operator has entered.
	Operator   string
	Tenant     string
	UID        string // of the tenant; empty for a tenant of the file
	User       string
	Agent      string
	Credential string // id of the API key, or name of the certificate or the issuer
	RequestID  string
}

// Kinds of callers, in the claim caller.
const (
	kindUser       = "user"       // a user that a credential, a session or the listener vouches for
	kindCredential = "credential" // a credential without a user
	kindOperator   = "operator"   // an operator in the playground
	kindUnverified = "unverified" // a user that nothing vouches for
	kindAnonymous  = "anonymous"  // nothing is known but the tenant
	kindGateway    = "gateway"    // the gateway itself
)

// subject returns the kind of a caller, and its unique name: kinds and tenants never share one. The parts of the name
// are escaped, so that no user can contain a part.
func (c *Caller) subject() (kind, name string) {
	if c.Gateway {
		return kindGateway, kindGateway
	}
	kind, name = kindAnonymous, ""
	switch {
	case c.Operator != "":
		kind, name = kindOperator, c.Operator
	case c.User != "" && c.Verified:
		kind, name = kindUser, c.User
	case c.User != "":
		kind, name = kindUnverified, c.User
	case c.Credential != "":
		kind, name = kindCredential, c.Credential
	}
	sub := url.PathEscape(c.Tenant)
	if c.UID != "" {
		sub += "/" + url.PathEscape(c.UID)
	}
	if sub += "/" + kind; name != "" {
		sub += "/" + url.PathEscape(name)
	}
	return kind, sub
}

// Clone returns a copy with its own strings.
func (c *Caller) Clone() *Caller {
	own := *c
	own.Operator, own.Tenant, own.UID = strings.Clone(c.Operator), strings.Clone(c.Tenant), strings.Clone(c.UID)
	own.User, own.Agent = strings.Clone(c.User), strings.Clone(c.Agent)
	own.Credential, own.RequestID = strings.Clone(c.Credential), strings.Clone(c.RequestID)
	return &own
}

// Encode returns the caller as a text of ASCII for a header inside the process. It keeps names that are not UTF-8.
func (c *Caller) Encode() string {
	text := url.Values{}
	for name, value := range c.fields() {
		if *value != "" {
			text.Set(name, *value)
		}
	}
	text.Set("gateway", strconv.FormatBool(c.Gateway))
	text.Set("verified", strconv.FormatBool(c.Verified))
	return text.Encode()
}

// Decode reads a text of Encode.
func Decode(text string) (*Caller, error) {
	values, err := url.ParseQuery(text)
	if err != nil {
		return nil, fmt.Errorf("decode a caller: %w", err)
	}
	c := &Caller{Gateway: values.Get("gateway") == "true", Verified: values.Get("verified") == "true"}
	for name, value := range c.fields() {
		*value = values.Get(name)
	}
	return c, nil
}

// fields returns the texts of a caller by their names in Encode.
func (c *Caller) fields() map[string]*string {
	return map[string]*string{"tenant": &c.Tenant, "uid": &c.UID, "user": &c.User, "agent": &c.Agent,
		"operator": &c.Operator, "credential": &c.Credential, "request": &c.RequestID}
}

// claims are the payload of an assertion.
type claims struct {
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	Audience string `json:"aud"`
	Issued   int64  `json:"iat"` // s since 1970
	Expires  int64  `json:"exp"` // s since 1970
	ID       string `json:"jti"`

	Caller     string `json:"caller"`
	Tenant     string `json:"tenant,omitempty"`
	TenantUID  string `json:"tenant_uid,omitempty"`
	User       string `json:"user,omitempty"`
	Agent      string `json:"agent,omitempty"`
	Credential string `json:"credential,omitempty"`
	RequestID  string `json:"request_id,omitempty"`
}

// maxRequestID is the maximum length of a request id in an assertion, in bytes: gRPC clients choose theirs freely.
const maxRequestID = 128

// fill sets the claims about a caller.
func (k *claims) fill(c *Caller) {
	if k.Caller, k.Subject = c.subject(); c.Gateway {
		return
	}
	k.Tenant, k.TenantUID, k.User, k.Agent = c.Tenant, c.UID, c.User, c.Agent
	k.Credential, k.RequestID = c.Credential, untrusted.Cut(c.RequestID, maxRequestID)
}

// Issuer returns the value of iss of a gateway with this public URL, which may be empty.
func Issuer(publicURL string) string { return cmp.Or(publicURL, "capgate") }
