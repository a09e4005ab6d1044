package signing

import (
	"cmp"
	"context"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// Query is the name of the query parameter with the signature.
const Query = "signature"

const (
	defaultTTL = 10 * time.Minute
	minTTL     = time.Second
	maxID      = 512 // bytes, of an artifact or a session
)

// Signer signs URLs. It may wait until ctx ends.
type Signer interface {
	Sign(ctx context.Context, g tenant.SignedGrant) (string, *call.Refusal)
}

// Finder checks whether an artifact exists for an identity: it returns nil, or the reason. It may wait for about a
// second.
type Finder interface {
	FindArtifact(identity tenant.Identity, capability, id string) *call.Refusal
}

// Config configures a Server. All fields but Now are required.
type Config struct {
	Signer Signer
	Finder func() Finder // called for each request
	// Maximum validity of a signed URL.
	MaxTTL time.Duration    `yaml:"max_url_ttl" min:"1s" max:"168h" default:"1h"`
	Now    func() time.Time // nil means the system clock
}

// Server implements capgate.v1.Artifacts.
type Server struct {
	capgatepb.UnimplementedArtifactsServer
	cfg    Config
	public atomic.Pointer[string]
}

// New returns a Server.
func New(cfg Config) *Server {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Server{cfg: cfg}
	s.SetPublicURL("")
	return s
}

// SetPublicURL sets the prefix of URLs, without a final slash. If base is empty, URLs have neither scheme nor host.
func (s *Server) SetPublicURL(base string) { s.public.Store(&base) }

// SignUrl implements capgatepb.ArtifactsServer.
//
//nolint:revive // the name is the proto's
func (s *Server) SignUrl(ctx context.Context, req *capgatepb.SignUrlRequest) (*capgatepb.SignUrlResponse, error) {
	caller, err := tenant.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	session, refusal := sessionAt(caller.At, req.GetSessionId())
	ttl, wrong := s.ttl(req)
	refusal = cmp.Or(wrong, refusal)
	if refusal == nil {
		refusal = s.cfg.Finder().FindArtifact(caller, req.GetCapabilityId(), req.GetArtifactId())
	}
	grant := tenant.SignedGrant{
		Download: tenant.Download{Capability: req.GetCapabilityId(), Artifact: req.GetArtifactId(),
			Session: session},
		Tenant: caller.Tenant, Key: caller.Key, Expires: s.cfg.Now().Add(ttl).Truncate(time.Second),
	}
	var signature string
	if refusal == nil {
		signature, refusal = s.cfg.Signer.Sign(ctx, grant)
	}
	if refusal != nil {
		return nil, status.Answer(refusal).Err()
	}
	return &capgatepb.SignUrlResponse{
		Url: *s.public.Load() + "/v1/capabilities/" + url.PathEscape(grant.Capability) + "/artifacts/" +
			url.PathEscape(grant.Artifact) +
			"?" + Query + "=" + url.QueryEscape(signature),
		ExpireTime: grant.Expires.UTC().Format(time.RFC3339),
	}, nil
}

// sessionAt returns the session of a signed URL. A listener with a session uses its own.
func sessionAt(at *tenant.Listener, asked string) (string, *call.Refusal) {
	switch {
	case at == nil || at.Session == "" || at.Session == asked:
		return asked, nil
	case asked != "":
		return "", tenant.RefuseAt(tenant.SessionPart)
	}
	return at.Session, nil
}

func (s *Server) ttl(req *capgatepb.SignUrlRequest) (time.Duration, *call.Refusal) {
	if req.GetCapabilityId() == "" || req.GetArtifactId() == "" || len(req.GetArtifactId()) > maxID ||
		len(req.GetSessionId()) > maxID {
		return 0, invalid("capability_id and artifact_id are required; the ids of an artifact and a session " +
			"have at most 512 bytes each")
	}
	if req.GetTtl() == "" {
		return min(defaultTTL, s.cfg.MaxTTL), nil
	}
	ttl, err := time.ParseDuration(req.GetTtl())
	if err != nil || ttl < minTTL || ttl > s.cfg.MaxTTL {
		return 0, invalid("ttl must be a duration from 1s to " + s.cfg.MaxTTL.String() + ", like 10m")
	}
	return ttl, nil
}

func invalid(message string) *call.Refusal {
	return &call.Refusal{Kind: call.InvalidArgument, Reason: "SIGNED_URL_INVALID", Message: message}
}
