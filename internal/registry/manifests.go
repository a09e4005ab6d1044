package registry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	"github.com/capgate/capgate/internal/call"
)

// MaxManifests bounds the total size of the manifests of backends, in bytes.
const MaxManifests = 64 << 20

// Sum identifies a manifest: the SHA-256 of its text. The zero value is no manifest.
type Sum [sha256.Size]byte

func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// ParseSum parses the result of String.
func ParseSum(text string) (s Sum, ok bool) {
	n, err := hex.Decode(s[:], []byte(text[:min(len(text), 2*len(s))]))
	return s, err == nil && n == len(s) && s.String() == text
}

// Compare orders sums.
func (s Sum) Compare(o Sum) int { return bytes.Compare(s[:], o[:]) }

// Manifest is the manifest.yaml of a backend. Text is set only on the way to the store: backends with the same
// manifest share one text.
type Manifest struct {
	Sum  Sum
	Text string
}

// NewManifest returns the manifest with a text; "" is none.
func NewManifest(text string) Manifest {
	if text == "" {
		return Manifest{}
	}
	return Manifest{sha256.Sum256([]byte(text)), text}
}

// Document is a parsed manifest.
type Document interface {
	Capability() string
	Size() int // its memory in bytes
}

// document is the text of a manifest.
type document struct {
	capability string // of the manifest; "": the text is not a manifest
	text       string
}

// checkManifest validates the manifest of a registration. A known text is not parsed again.
func (r *Registry) checkManifest(rules *Rules, g *Registration) *call.Refusal {
	switch {
	case g.Manifest.Sum == Sum{}:
		return nil
	case rules.Manifests && r.manifest != nil:
	case g.Lease != "": // it was allowed when the backend registered
		g.Manifest = Manifest{}
		return nil
	default:
		return &call.Refusal{Kind: call.PermissionDenied, Reason: "MANIFEST_FORBIDDEN",
			Message: "backends may not send manifests, which recommend policies: registration.manifests is false; " +
				"register without a manifest, or set it to true"}
	}
	r.mu.Lock()
	d, known := r.documents[g.Manifest.Sum]
	r.mu.Unlock()
	if !known || d.capability == "" { // the store's copy may be damaged
		var refusal *call.Refusal
		if d.capability, refusal = r.manifest(g.Manifest.Text); refusal != nil {
			return refusal
		}
	}
	if d.capability != g.Capability {
		return &call.Refusal{Kind: call.InvalidArgument, Reason: "MANIFEST_INVALID",
			Message:  "the manifest belongs to the capability " + d.capability + ", not to " + g.Capability,
			Metadata: map[string]string{"field": "id"}}
	}
	return nil
}

// fetch loads missing texts. It retries a text that cannot be loaded at the next read; if the store has lost it, the
// backend's next registration restores it.
func (r *Registry) fetch(ctx context.Context) {
	for _, sum := range r.missingManifests() {
		text, err := r.leases.Manifest(ctx, sum)
		if err != nil {
			r.counts.readsFailed.Add(1)
			return
		}
		if text == "" {
			continue
		}
		d := document{text: text}
		if NewManifest(text).Sum == sum { // the store is not trusted
			d.capability, _ = r.manifest(text)
		}
		if d.capability == "" {
			d.text = ""
			r.log.Warn("the store holds a manifest that cannot be read", "sha256", sum.String())
		}
		r.mu.Lock()
		r.documents[sum] = d
		r.mu.Unlock()
	}
}

// missingManifests returns the named manifests without a text here. It also drops those that are no longer named.
func (r *Registry) missingManifests() []Sum {
	r.mu.Lock()
	defer r.mu.Unlock()
	named := map[Sum]bool{}
	if r.settings.Rules.Manifests && r.manifest != nil {
		for _, h := range r.registrations {
			named[h.Manifest.Sum] = true
		}
		delete(named, Sum{})
	}
	size := 0
	maps.DeleteFunc(r.documents, func(s Sum, d document) bool {
		size += len(d.text)
		return !named[s]
	})
	maps.DeleteFunc(named, func(s Sum, _ bool) bool {
		_, here := r.documents[s]
		return here || size > MaxManifests
	})
	return slices.SortedFunc(maps.Keys(named), Sum.Compare)
}

// effective returns the manifest of a registration, if it may apply. The caller holds r.mu.
func (r *Registry) effective(g *Registration) Sum {
	if d := r.documents[g.Manifest.Sum]; r.settings.Rules.Manifests && d.capability == g.Capability {
		return g.Manifest.Sum
	}
	return Sum{}
}

// Manifest returns the text of a manifest that members bring, or "".
func (r *Registry) Manifest(sum Sum) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.documents[sum].text
}
