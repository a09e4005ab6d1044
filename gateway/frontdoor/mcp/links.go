package mcp

import (
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/dialect"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// linkVersion is the first revision with links to resources.
const linkVersion = "2025-06-18"

// links returns the files that a result names, each with a signed URL at which anybody may download it for a while. A
// file that the caller may not sign has no link. An older client gets a text.
func (h *Handler) links(i *invocation, result []byte) (all []sdk.Content) {
	ctx := i.exchange.r.Context() // without the idempotency key of the call
	for _, id := range dialect.Named(result) {
		signed, err := h.files.SignUrl(ctx, &capgatepb.SignUrlRequest{CapabilityId: i.req.GetCapabilityId(), ArtifactId: id,
			SessionId: i.req.GetSessionId()})
		if err != nil {
			continue
		}
		address := signed.GetUrl()
		if strings.HasPrefix(address, "/") {
			address = h.base(i.exchange.r) + address
		}
		until := "until " + signed.GetExpireTime()
		if i.exchange.read.version < linkVersion {
			all = append(all, &sdk.TextContent{Text: "File " + id + ", " + until + ": " + address})
			continue
		}
		all = append(all, &sdk.ResourceLink{URI: address, Name: id, Description: "A file of the result, " + until + "."})
	}
	return all
}
