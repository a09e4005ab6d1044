package signin_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// follow opens a stream, and returns a channel that closes at its end.
func (b *browser) follow(ctx context.Context, base string) <-chan struct{} {
	b.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/events", http.NoBody)
	check.Must(b, err)
	resp, err := b.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		b.Fatal(resp, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}()
	return ended
}

// TestStreamsEnd: a stream ends with its session, and when its person has other rights, and no other stream does.
func TestStreamsEnd(t *testing.T) {
	t.Parallel()
	p := open(t, rig{})
	revoked, changed, lasting := p.browser(t), p.browser(t), open(t, rig{issuer: p.issuer})
	other := lasting.browser(t)
	revoked.signIn(p.URL, "/")
	other.signIn(lasting.URL, "/")
	end, goesOn := revoked.follow(t.Context(), p.URL), other.follow(t.Context(), lasting.URL)
	if refusal := p.sessions.EndAll(t.Context(), "ann, issuer corp"); refusal != nil {
		t.Fatal(refusal)
	}
	p.sessions.Read(t.Context())
	check.Received(t, end, "the stream of a session that was revoked to end")
	changed.signIn(p.URL, "/")
	end = changed.follow(t.Context(), p.URL)
	p.people.give("other rights")
	check.Received(t, end, "the stream of a person with other rights to end")
	select {
	case <-goesOn:
		t.Error("the stream of another port has ended")
	default:
	}
	lasting.CloseClientConnections()
	check.Received(t, goesOn, "a stream to end with its connection")
}

// TestStreamsOutlastAnOutage: a stream continues while the rights of its person are unknown, and still ends with its
// session.
func TestStreamsOutlastAnOutage(t *testing.T) {
	t.Parallel()
	p := open(t, rig{})
	b := p.browser(t)
	b.signIn(p.URL, "/")
	end := b.follow(t.Context(), p.URL)
	p.people.leave(true)
	for n := range 3 { // after the first answer the stream asks again only if it goes on
		check.Holds(t, "the stream to ask", func() bool {
			if refusal := p.sessions.EndAll(t.Context(), "another"); refusal != nil {
				t.Error(refusal)
			}
			return p.people.questions() > n
		})
	}
	select {
	case <-end:
		t.Error("the stream has ended")
	default:
	}
	if refusal := p.sessions.EndAll(t.Context(), annOfCorp); refusal != nil {
		t.Error(refusal)
	}
	check.Received(t, end, "the stream of a session that was revoked to end")
}
