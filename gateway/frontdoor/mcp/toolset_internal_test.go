package mcp

import (
	"context"
	"errors"
	"testing"

	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/internal/toolset"
)

// noHash is a catalog without tools.
type noHash struct{ Catalog }

func (noHash) Hash(string, string) (h toolschema.Hash, known bool) { return h, false }

var errNoRoom = errors.New("no room")

// room is the memory that is left for results, in bytes.
type room struct{ left int64 }

func (r *room) Reserve(n int64) bool { r.left -= n; return r.left >= 0 }
func (r *room) Release(n int64)      { r.left += n }
func (*room) Exceeded() error        { return errNoRoom }

// TestFillIsCharged: the copy of the arguments with the fixed ones is charged before it is made.
func TestFillIsCharged(t *testing.T) {
	t.Parallel()
	arguments, err := toolset.ParseArguments([]byte(`{"units":"metric"}`))
	check.Must(t, err)
	set := toolset.New([]toolset.Toolset{{Name: "s", Tools: []toolset.Entry{
		{Capability: "c", Tool: "t", Arguments: arguments}}}}).Find("s", toolset.Caller{})
	h := &Handler{cfg: Config{Catalog: noHash{}}}
	args := append(append([]byte(`{"text":"`), make([]byte, 32<<10)...), `"}`...)
	for i := range args {
		if args[i] == 0 {
			args[i] = 'x'
		}
	}
	for size, want := range map[int64]error{int64(len(args)) + 100: nil, int64(len(args)): errNoRoom} {
		ctx := context.WithValue(context.WithValue(t.Context(), toolsetKey{}, set), request.ResultsKey(), &room{size})
		full, _, err := h.fill(ctx, &exchange{}, "c", "t", args)
		if !errors.Is(err, want) || want == nil && len(full) != len(args)+len(`,"units":"metric"`) {
			t.Errorf("%d bytes of %d: %d bytes, %v", size, len(args), len(full), err)
		}
	}
}

// TestUntitled: a tool with another name has no title of its server, which clients would show in its place.
func TestUntitled(t *testing.T) {
	t.Parallel()
	hash := toolschema.Hash{}
	for annotations, want := range map[string]string{
		`{"title":"Echo","readOnlyHint":true}`: `{"readOnlyHint":true}`, `{"title":"Echo"}`: "", "": "",
		`{"readOnlyHint":true}`: `{"readOnlyHint":true}`,
	} {
		tool := Tool{Name: "t", Extras: &manifest.Extras{Title: []byte(`"Echo"`), Annotations: []byte(annotations)}}
		got := chosenTools{noHash{}}.form(&toolset.Entry{Name: "n", Hash: hash}, "c", tool)
		if got.Extras.Title != nil || string(got.Extras.Annotations) != want {
			t.Errorf("%s: %s %s", annotations, got.Extras.Title, got.Extras.Annotations)
		}
		same := chosenTools{noHash{}}.form(&toolset.Entry{}, "c", tool)
		if string(same.Extras.Title) != `"Echo"` || string(same.Extras.Annotations) != annotations {
			t.Errorf("%s: without a name: %s %s", annotations, same.Extras.Title, same.Extras.Annotations)
		}
	}
}

// bare is a catalog in which every tool exists. It counts how often one is looked up.
type bare struct {
	noHash
	n *int
}

func (bare) Sees(context.Context, string) bool          { return true }
func (b bare) Has(context.Context, string, string) bool { *b.n++; return true }

// TestANameIsResolvedOnce: a request resolves the name of its tool once, with the entry of its toolset. Another name,
// as call_tool has one, is resolved by itself.
func TestANameIsResolvedOnce(t *testing.T) {
	t.Parallel()
	n := 0
	h := &Handler{cfg: Config{Catalog: bare{n: &n}}}
	h.Set(Settings{Names: NewNames(map[string]string{"c": ""})})
	set := toolset.New([]toolset.Toolset{{Name: "s", Tools: []toolset.Entry{{Capability: "c", Tool: "t"},
		{Capability: "c", Tool: "u", Name: "renamed"}}}}).Find("s", toolset.Caller{})
	x := &exchange{}
	ctx := context.WithValue(context.WithValue(t.Context(), toolsetKey{}, set), exchangeKey{}, x)
	for range 3 {
		if capability, tool, ok := h.toolOf(ctx, "t"); capability != "c" || tool != "t" || !ok || n != 1 {
			t.Fatalf("%s %s %v, looked up %d times", capability, tool, ok, n)
		}
		if e := x.entryOf(ctx, "c", "t"); e != set.Entry("c", "t") {
			t.Errorf("the entry is %+v", e)
		}
	}
	for name, want := range map[string]string{"renamed": "u", "u": "", "none": ""} {
		if _, tool, ok := h.toolOf(ctx, name); tool != want || ok != (want != "") {
			t.Errorf("%s is %q, %v", name, tool, ok)
		}
	}
	if e := x.entryOf(ctx, "c", "t"); e != set.Entry("c", "t") {
		t.Errorf("after another name, the entry is %+v", e)
	}
}
