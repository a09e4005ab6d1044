package app

import (
	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/builtin/signing"
	"github.com/capgate/capgate/gateway/frontdoor/files"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/tenant"
)

// newSignatures makes what signs URLs of files, and knows its signatures.
func (p *App) newSignatures(s *settings.Settings) {
	var tenants tenant.Tenants
	if s.Config.Multi {
		tenants = p.auth.directory
	}
	p.signatures = tenant.NewSignatures(tenants, p.auth.all, p.store.Signing(), nil)
	p.signatures.Replace(s.SigningKeys)
	p.signing = p.newSigner(s.Config.Artifacts)
}

// newSigner is what callers ask for signed URLs.
func (p *App) newSigner(cfg config.Artifacts) *signing.Server {
	return signing.New(signing.Config{
		Signer: p.signatures, Finder: func() signing.Finder { return p.gateway }, Status: gateway.GRPCStatus,
		MaxTTL: cfg.MaxURLTTL, PublicURL: cfg.PublicURL,
	})
}

// bareOf is what only a restart changes: keys go with the file.
func bareOf(cfg config.Artifacts) config.Artifacts {
	cfg.KeyFile = ""
	return cfg
}

func filesOf(cfg config.Artifacts) files.Config { return files.Config{MaxSize: cfg.MaxSize} }
