package client

import (
	"testing"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/tenant"
)

// TestOriginOutlivesTheHeader: when the response begins, the memory of the request headers may belong to another call.
// The caller is recorded after that, correctly.
func TestOriginOutlivesTheHeader(t *testing.T) {
	t.Parallel()
	header := []byte("https://api.example:443")
	part := func(from, to int) string { return filter.View(header[from:to]) }
	said := filter.ClientDetails{Peer: &tenant.Peer{DNS: []string{"agent.acme.example"}}, Told: true,
		Proto: part(0, 5), Host: part(8, 19), Port: part(20, 23)}
	o := clone(said)
	for i := range header {
		header[i] = 'x'
	}
	if o.Proto != "https" || o.Host != "api.example" || o.Port != "443" || !o.Told {
		t.Errorf("%+v", o)
	}
	if o.Peer == nil || len(o.Peer.DNS) != 1 || o.Peer.DNS[0] != "agent.acme.example" {
		t.Errorf("peer %+v", o.Peer)
	}
}
