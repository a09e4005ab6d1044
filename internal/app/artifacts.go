package app

import (
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/builtin/signing"
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
			c := p.started.Config.Artifacts.URLs
			c.Signer, c.Finder = signatures, func() signing.Finder { return p.gateway }
			signer = signing.New(c)
			p.parts.Callers.Signed, p.parts.Doors.REST.Files = signatures, p.started.Config.Artifacts.Files
			p.parts.builtins = append(p.parts.builtins, func(g grpc.ServiceRegistrar) {
				capgatepb.RegisterArtifactsServer(g, signer)
			})
			return nil
		},
		apply: func(_ *App, c *change) { signer.SetPublicURL(c.Config.PublicURL) },
	}
}
