package mcp

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// ruledFeatures has the features of the capability one. A rule hides its prompt secret.
type ruledFeatures struct {
	t      *testing.T
	listed bool
}

func (f ruledFeatures) Prompts(_ context.Context, wait bool) ([]Offer, error) {
	if wait {
		f.t.Error("a request that needs no list waits for those of all capabilities")
	}
	return nil, nil
}

func (f ruledFeatures) Resources(_ context.Context, wait bool) ([]Offer, error) {
	if wait {
		f.t.Error("a result waits for lists")
	}
	return []Offer{{Capability: "one", Reads: true}, {Capability: "two", Reads: true}}, nil
}

func (f ruledFeatures) Prompt(_ context.Context, capability, prompt string) (known, may bool, err error) {
	if capability != "one" {
		f.t.Errorf("the prompts of %s are requested", capability)
	}
	return f.listed, prompt != "secret" && (prompt == "greet" || !f.listed), nil
}

func (f ruledFeatures) Has(context.Context, string) bool { return true }

func (f ruledFeatures) Updates(context.Context, string) (bool, error) { return true, nil }

// allSeen is a Catalog whose capabilities are visible.
type allSeen struct{ Catalog }

func (allSeen) Sees(context.Context, string) bool { return true }

// TestFeaturesOfOthersDelayNothing: a prompt needs the list of its own server alone, and links of a result need none.
func TestFeaturesOfOthersDelayNothing(t *testing.T) {
	t.Parallel()
	h := &Handler{cfg: Config{Catalog: allSeen{}, Features: ruledFeatures{t, true}}}
	h.settings.Store(&Settings{Names: &Names{}})
	if capability, prompt, ok, err := h.promptOf(t.Context(), "one__greet"); capability != "one" || prompt != "greet" ||
		!ok || err != nil {
		t.Errorf("%s, %s, %t, %v", capability, prompt, ok, err)
	}
	_ = h.hiddenPrompt(t.Context(), "one__none")
	const link = `{"type":"resource_link","uri":"a:b","name":"x"}`
	i := &invocation{exchange: &exchange{r: httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)},
		req: &docpb.InvokeRequest{CapabilityId: "one"}}
	r, err := h.linked(i, &callResult{items: []byte(link)})
	if err != nil || !strings.Contains(string(r.items), "capgate:one:a:b") {
		t.Errorf("%s, %v", r.items, err)
	}
	messages, err := h.linkedMessages(t.Context(), "one", []byte(`[{"role":"user","content":`+link+`}]`))
	if err != nil || !strings.Contains(string(messages), "capgate:one:a:b") {
		t.Errorf("%s, %v", messages, err)
	}
}

// TestHiddenPromptsOfUnknownLists: a rule hides a prompt also while no list has it.
func TestHiddenPromptsOfUnknownLists(t *testing.T) {
	t.Parallel()
	for _, listed := range []bool{false, true} {
		h := &Handler{cfg: Config{Catalog: allSeen{}, Features: ruledFeatures{t, listed}}}
		h.settings.Store(&Settings{Names: &Names{}})
		for name, want := range map[string]bool{"one__greet": true, "one__secret": false, "one__new": !listed,
			"one__" + "a\nb": false, "one__" + strings.Repeat("x", 120): !listed,
			"one__" + strings.Repeat("x", maxName): false} {
			if _, _, ok, err := h.promptOf(t.Context(), name); ok != want || err != nil {
				t.Errorf("listed %t, %.20q: %t, %v", listed, name, ok, err)
			}
		}
	}
}
