package gateway

import (
	"net/netip"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/tenant"
)

// TestOriginOutlivesTheHeader: the memory of headers is another call's when the response has
// begun, and who called is recorded after that.
func TestOriginOutlivesTheHeader(t *testing.T) {
	t.Parallel()
	said := filter.Client{Peer: &tenant.Peer{DNS: []string{"agent.acme.example"}, Expires: time.Unix(1e9, 0)}, Told: true, Proto: "https", Host: "api.example"}
	header := []byte(originText(withClient(said, netip.MustParseAddr("192.0.2.7"))))
	o := parseOrigin(filter.View(header))
	for i := range header {
		header[i] = 'x'
	}
	if o.Address != "192.0.2.7" || o.Proto != "https" || o.Host != "api.example" {
		t.Errorf("%+v", o)
	}
	if o.Peer == nil || len(o.Peer.DNS) != 1 || o.Peer.DNS[0] != "agent.acme.example" {
		t.Errorf("peer %+v", o.Peer)
	}
}
