package app

import (
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/builtin/signing"
	"github.com/capgate/capgate/gateway/frontdoor/files"
	"github.com/capgate/capgate/internal/tenant"
)

// artifactsFeature signs URLs of files, and verifies the signatures.
func artifactsFeature() feature {
	var signer *signing.Server
	return feature{
		build: func(p *App) error {
			var tenants tenant.Tenants
			if p.started.Config.Multi {
				tenants = p.auth.directory
			}
			signatures := tenant.NewSignatures(tenants, p.auth.all, p.secret.Keys("urls"), nil)
			cfg := p.started.Config.Artifacts
			signer = signing.New(signing.Config{Signer: signatures, Finder: func() signing.Finder { return p.gateway },
				MaxTTL: cfg.MaxURLTTL})
			p.parts.Callers.Signed, p.parts.Doors.REST.Files = signatures, files.Config{MaxSize: cfg.MaxSize}
			p.parts.builtins = append(p.parts.builtins, func(g grpc.ServiceRegistrar) {
				capgatepb.RegisterArtifactsServer(g, signer)
			})
			return nil
		},
		apply: func(_ *App, c *change) { signer.SetPublicURL(c.Config.PublicURL) },
	}
}
