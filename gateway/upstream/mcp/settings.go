package mcp

import (
	"cmp"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/oauth"
	"github.com/capgate/capgate/internal/lib/weburl"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/router"
)

// Settings of a fleet of MCP servers.
type Settings struct {
	// File with headers of each request to the servers, such as credentials: name: value, one a line. It is read again
	// when it changes.
	HeadersFile string `yaml:"headers_file" kind:"file"`
	// Access tokens of OAuth for the servers, in place of a credential in headers_file. Default none.
	OAuth *oauth.Settings `yaml:"oauth"`
	// MaxMessage is the size of the largest message that a server may send; default 8 MiB.
	MaxMessage int64 `yaml:"-"`
	// Revision of the protocol that is requested first, such as 2025-11-25. Default the newest; with affinity:
	// session, the newest that has sessions.
	Revision string `yaml:"revision" enum:"2024-11-05,2025-03-26,2025-06-18,2025-11-25,2026-07-28"`
	// Questions of the servers that pass to clients of /mcp during a call: forms for the user; elicitation, which is
	// forms and URLs; sampling of the client's model; and the client's roots. Others are refused. [] means none.
	Questions []string `yaml:"questions" enum:"forms,elicitation,sampling,roots" unique:"true" default:"[forms]"`
	// Sessions of callers at the servers: shared, if all replicas of the gateway reach the same server at a URL, so
	// that they continue each other's; replica, if each has its own. Default shared; at loopback and link-local
	// addresses replica.
	Sessions string `yaml:"sessions" enum:"shared,replica"`
}

// Values of Settings.Sessions.
const (
	SharedSessions = "shared"
	OwnSessions    = "replica"
)

// shares reports whether replicas continue each other's sessions at a server. Behind an address that means the machine
// itself, each replica may have a server of its own.
func (s *Settings) shares(server string) bool {
	u, err := url.Parse(server)
	if s.Sessions != "" || err != nil {
		return s.Sessions == SharedSessions
	}
	ip, err := netip.ParseAddr(u.Hostname())
	local := err == nil && (ip.Unmap().IsLinkLocalUnicast() || ip.IsUnspecified())
	return !local && !weburl.IsLoopback(u.Hostname())
}

// questions returns the kinds of questions that may pass.
func (s *Settings) questions() (all questions.Kinds) {
	for _, word := range s.Questions {
		switch word {
		case "forms":
			all |= questions.Forms
		case "elicitation":
			all |= questions.Elicitation
		case "sampling":
			all |= questions.Sampling
		case "roots":
			all |= questions.Roots
		}
	}
	return all
}

// Name is the protocol's name in the configuration.
const Name = "mcp"

// Traits implements router.Protocol.
func (*Settings) Traits() router.Traits {
	return router.Traits{Name: Name, OwnSessions: true, Relayed: true}
}

// Request implements router.Protocol.
func (*Settings) Request(tool string) router.Request {
	switch {
	case tool == upstream.DiscoveryTool:
		return router.Request{MCP: true, Method: "tools/list"}
	case tool == manifest.ListFeatures:
		return router.Request{MCP: true, Method: "prompts/list"}
	case strings.HasPrefix(tool, manifest.PromptPrefix):
		return router.Request{MCP: true, Method: getPrompt}
	case manifest.IsFeature(tool):
		return router.Request{MCP: true, Method: tool}
	}
	return router.Request{MCP: true, Method: callTool, Tool: tool}
}

// Read reads the headers of requests to the servers, and the credential of the gateway at their authorization server.
func Read(f, _ *upstream.Fleet, files upstream.Files) (err error) {
	s := settingsOf(f)
	f.Headers, err = files.Headers(s.HeadersFile, ReservedHeader)
	if s.OAuth == nil {
		return err
	}
	if f.Headers["authorization"] != "" {
		err = errors.New("oauth and headers_file both set the header authorization; give one of the two")
	}
	credential, wrong := s.OAuth.Read(files)
	f.Content = credential
	return errors.Join(err, wrong)
}

func settingsOf(f *upstream.Fleet) *Settings { return f.Protocol.(*Settings) }

// maxMessage returns the maximum size of a server's message, in bytes.
func (s *Settings) maxMessage() int { return cmp.Or(int(s.MaxMessage), 8<<20) }

// ReservedHeader reports whether the protocol, or HTTP, sets a header of requests, so that the configuration must not.
func ReservedHeader(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Accept", "Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Host",
		"Last-Event-Id", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	const prefix = "Mcp-"
	canonical := http.CanonicalHeaderKey(name)
	return len(canonical) > len(prefix) && canonical[:len(prefix)] == prefix
}
