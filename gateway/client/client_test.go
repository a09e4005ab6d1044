package client

import (
	"testing"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/tenant"
)

// TestOriginOutlivesTheHeader: when the response begins, or the client has left, the memory of the request headers may
// belong to another call. The caller is recorded after that, and sent to backends, correctly.
func TestOriginOutlivesTheHeader(t *testing.T) {
	t.Parallel()
	header := []byte("https://api.example:443")
	part := func(from, to int) string { return filter.View(header[from:to]) }
	said := filter.ClientDetails{Peer: &tenant.Peer{DNS: []string{"agent.acme.example"}}, Told: true,
		Proto: part(0, 5), Host: part(8, 19), Port: part(20, 23)}
	var c filter.Call
	c.Opening = &filter.Opening{Details: said}
	keep(&c)
	o := clone(said)
	for i := range header {
		header[i] = 'x'
	}
	for _, d := range []filter.ClientDetails{o, c.Details} {
		if d.Proto != "https" || d.Host != "api.example" || d.Port != "443" || !d.Told {
			t.Errorf("%+v", d)
		}
	}
	if o.Peer == nil || len(o.Peer.DNS) != 1 || o.Peer.DNS[0] != "agent.acme.example" {
		t.Errorf("peer %+v", o.Peer)
	}
}
