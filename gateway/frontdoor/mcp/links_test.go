package mcp

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestLinksLeadBack: links and embedded resources in a result name their server, however the server writes them.
func TestLinksLeadBack(t *testing.T) {
	t.Parallel()
	u := newURIs([]Offer{
		offer(t, "files", []string{"file:///a"}, []string{"file:///{+path}"}),
		offer(t, "other", []string{"file:///secret", "https://listed/a"}, nil),
	})
	long := strings.Repeat("a", manifest.MaxURI)
	for item, want := range map[string]string{
		`{"type":"text","text":"\"resource"}`:                             ``,
		`{"type":"resource_link","uri":"file:///secret","name":"s"}`:      `capgate:files:file:///secret`,
		`{"type":"resource_link","uri":"file:///a"}`:                      ``,
		`{"type":"resource","resource":{"uri":"new://1","blob":"AAA="}}`:  `capgate:files:new://1`,
		`{"type":"\u0072esource_link","uri":"file:///secret"}`:            `capgate:files:file:///secret`,
		`{"type":"resource\u005flink","u\u0072i":"file:///secret"}`:       `capgate:files:file:///secret`,
		`{"type":"\u0072esource","resource":{"uri":"new://1","text":""}}`: `capgate:files:new://1`,
		`{"type":"resource_link","uri":" file:///secret"}`:                `capgate:files: file:///secret`,
		`{"type":"resource_link","uri":"https://listed/a "}`:              `capgate:files:https://listed/a `,
		`{"type":"resource_link","uri":"file:///` + long + `"}`:           `capgate:files:file:///` + long,
		`{"type":"resource_link","uri":"https://listed/a"}`:               `capgate:files:https://listed/a`,
		`{"type":"resource_link","uri":"capgate:other:file:///secret"}`:   `capgate:files:capgate:other:file:///secret`,
		`{"type":"resource_link","uri":"https://a/b"}`:                    ``,
		`{"type":"resource_link","uri":"https://a/` + long + `"}`:         ``,
		`{"type":"resource_link","uri":"https://a/` + long + ` "}`:        `capgate:files:https://a/` + long + ` `,
		`{"type":"resource_link","uri":7}`:                                ``,
		`{"type":7,"uri":"file:///secret"}`:                               ``,
	} {
		if want != "" && !hasLinks([]byte(item)) {
			t.Errorf("%.80s has no links", item)
		}
		text, err := u.linksOf(t.Context(), "files").items([]byte(item + `,{"type":"text","text":"<"}`))
		check.Must(t, err)
		first, rest, _ := strings.Cut(string(text), `},{"type":"text"`)
		if rest != `,"text":"<"}` {
			t.Errorf("%.80s: the other content is %.80s", item, rest)
		}
		var got struct {
			URI      string
			Resource struct{ URI string }
		}
		switch err := json.Unmarshal([]byte(first+"}"), &got); {
		case want == "" && first+"}" != item:
			t.Errorf("%.80s becomes %.120s", item, text)
		case want != "" && (err != nil || got.URI+got.Resource.URI != want):
			t.Errorf("%.80s becomes %.120s, want %.80s", item, text, want)
		}
	}
	// Without the rules, all links name their server.
	text, err := newURIs(nil).linksOf(t.Context(), "files").items([]byte(`{"type":"resource_link","uri":"file:///a"}`))
	if want := `{"type":"resource_link","uri":"capgate:files:file:///a"}`; err != nil || string(text) != want {
		t.Errorf("%s %v", text, err)
	}
}

// TestManyLinks: a result causes a limited number of searches. Further links of servers name theirs, and links to
// pages need no search if no server lists pages.
func TestManyLinks(t *testing.T) {
	t.Parallel()
	l := newURIs([]Offer{offer(t, "files", nil, []string{"file:///{+path}"})}).linksOf(t.Context(), "files")
	const link, page = `{"type":"resource_link","uri":"file:///a"}`, `{"type":"resource_link","uri":"https://a"}`
	text, err := l.items([]byte(strings.Repeat(link+","+page+",", 3*maxLinks) + page))
	check.Must(t, err)
	for part, want := range map[string]int{`"file:///a"`: maxLinks, `"capgate:files:file:///a"`: 2 * maxLinks,
		`"https://a"`: 3*maxLinks + 1} {
		if got := strings.Count(string(text), part); got != want {
			t.Errorf("%s: %d, want %d", part, got, want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.uris.linksOf(ended, "files").items([]byte(link)); grpcstatus.Code(err) != codes.Canceled {
		t.Error("a call that ended:", err)
	}
}

// TestURIsAreBuiltOncePerList: a request does not build again what the lists of servers have.
func TestURIsAreBuiltOncePerList(t *testing.T) {
	var templates []string
	for range manifest.MaxTemplates {
		templates = append(templates, "file:///{a}{b}{c}/x")
	}
	offers := []Offer{offer(t, "a", nil, templates), offer(t, "b", nil, templates)}
	if n := testing.AllocsPerRun(10, func() { newURIs(offers) }); n > 50 {
		t.Errorf("%v allocations", n)
	}
}

// charge counts what a request reserves.
type charge struct{ held, most int64 }

// Reserve implements request.Results.
func (c *charge) Reserve(n int64) bool {
	if c.held+n > c.most {
		return false
	}
	c.held += n
	return true
}

// Release implements request.Results.
func (c *charge) Release(n int64) { c.held -= n }

// Exceeded implements request.Results.
func (*charge) Exceeded() error { return grpcstatus.Error(codes.ResourceExhausted, "") }

// TestLinksAreCharged: what rewritten links become is charged before they grow.
func TestLinksAreCharged(t *testing.T) {
	t.Parallel()
	capability := strings.Repeat("c", 128)
	items := []byte(strings.Repeat(`{"type":"resource_link","uri":"a:b"},`, 9999) + `{"type":"text"}`)
	c := &charge{most: 1 << 40}
	ctx := context.WithValue(t.Context(), request.ResultsKey(), request.Results(c))
	u := newURIs(nil)
	text, err := u.linksOf(ctx, capability).items(items)
	check.Must(t, err)
	if len(text) < 4*len(items) || c.held < int64(len(text)+2*len(items)) {
		t.Errorf("%d bytes became %d, and %d were charged", len(items), len(text), c.held)
	}
	c.held, c.most = 0, int64(4*len(items))
	if _, err := u.linksOf(ctx, capability).items(items); grpcstatus.Code(err) != codes.ResourceExhausted {
		t.Error("without room:", err)
	}
}

// TestPagesOfLargePrompts: a page ends after its maximum of bytes, which include the arguments of prompts.
func TestPagesOfLargePrompts(t *testing.T) {
	t.Parallel()
	c := &charge{most: 1 << 40}
	ctx := context.WithValue(t.Context(), request.ResultsKey(), request.Results(c))
	f := &manifest.Feature{Name: "a", Arguments: []manifest.FeatureArgument{
		{Name: "b", Description: strings.Repeat("x", 200<<10)}}}
	p, err := pageOf(ctx, "", func(add addFeature) {
		for range pageFeatures {
			if !add("a", "a", func() *manifest.Feature { return f }) {
				return
			}
		}
	})
	check.Must(t, err)
	text, err := json.Marshal(p.items)
	check.Must(t, err)
	if len(p.items) > 6 || p.next == "" || c.held < listCopies*int64(len(text)*9/10) {
		t.Errorf("%d prompts of %d bytes, of which %d were charged", len(p.items), len(text), c.held)
	}
	small := manifest.Feature{Arguments: make([]manifest.FeatureArgument, 1000)}
	for i := range small.Arguments {
		small.Arguments[i] = manifest.FeatureArgument{Name: "a", Required: true}
	}
	if text, err := json.Marshal(small); err != nil || small.Length() < len(text) {
		t.Errorf("small arguments have %d bytes of JSON, and count %d", len(text), small.Length())
	}
}
