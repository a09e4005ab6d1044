package gateway_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// authorization returns the header with the credential in ctx.
func authorization(ctx context.Context) string {
	md, _ := metadata.FromOutgoingContext(ctx)
	return md.Get("authorization")[0]
}

// TestArtifactSizeOverHTTP: an upload over the tenant's maximum is discarded, and a download over it is
// truncated. Other tenants have their own maximum.
func TestArtifactSizeOverHTTP(t *testing.T) {
	t.Parallel()
	const most = 600_000
	for _, protocol := range protocols {
		f, acme, globex := bounded(t, tenant.Limits{ArtifactSize: most}, call.Doc)
		client := protocol.client(f.gateway, t)
		send := func(ctx context.Context, method, path string, data []byte) answered {
			return transfer(t, client, method, f.gateway.URL(path), bytes.NewReader(data), "Authorization",
				authorization(ctx))
		}
		up := send(acme, http.MethodPost, filesPath, pattern(most))
		if up.StatusCode != http.StatusCreated {
			t.Fatalf("%s: %s %s", protocol.name, up.Status, up.body)
		}
		if down := send(acme, http.MethodGet, up.uploaded(t).Path, nil); down.StatusCode != 200 ||
			!bytes.Equal(down.body, pattern(most)) {
			t.Errorf("%s: %s, %d bytes, %v", protocol.name, down.Status, len(down.body), down.err)
		}
		large := send(acme, http.MethodPost, filesPath, pattern(2*most))
		if large.StatusCode != http.StatusRequestEntityTooLarge ||
			!strings.Contains(string(large.body), "ARTIFACT_TOO_LARGE") || f.capability.Kept() != 1 {
			t.Errorf("%s: %s %s; %d files are kept", protocol.name, large.Status, large.body, f.capability.Kept())
		}
		theirs := send(globex, http.MethodPost, filesPath, pattern(2*most))
		if theirs.StatusCode != http.StatusCreated {
			t.Fatalf("%s: %s %s", protocol.name, theirs.Status, theirs.body)
		}
		stored := theirs.uploaded(t)
		if down := send(globex, http.MethodGet, stored.Path, nil); !bytes.Equal(down.body, pattern(2*most)) {
			t.Errorf("%s: %s, %d bytes, %v", protocol.name, down.Status, len(down.body), down.err)
		}
		if listed, err := f.client.Invoke(acme, request(gatewaytest.List, `{}`)); err != nil ||
			!strings.Contains(string(listed.GetResultJson()), `"`+stored.ID+`"`) {
			t.Fatalf("%s: acme reads upload %s, want %s: %v", protocol.name, listed.GetResultJson(), stored.ID,
				err)
		}
		if down := send(acme, http.MethodGet, stored.Path, nil); down.err == nil || len(down.body) > most {
			t.Errorf("%s: %s, %d bytes, %v", protocol.name, down.Status, len(down.body), down.err)
		}
	}
}
