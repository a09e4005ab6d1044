package manifest

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Names of the calls of MCP servers that are not calls of tools, for policies and records. They have a slash, which no
// tool has in its name.
const (
	PromptPrefix = "prompts/"            // prompts/get; the name of the prompt follows
	ReadResource = "resources/read"      // with the argument uri
	Subscribe    = "resources/subscribe" // to updates of the resource with the argument uri
	Complete     = "completion/complete" // of an argument of a prompt or of a template of resources
	// ListFeatures lists prompts and resources. Only the gateway itself makes this call.
	ListFeatures = "features/list"
)

// IsFeature reports whether a name is that of a call of an MCP server that is not the call of a tool.
func IsFeature(name string) bool {
	return name == ReadResource || name == Subscribe || name == Complete || len(name) > len(PromptPrefix) &&
		strings.HasPrefix(name, PromptPrefix)
}

// Feature is a prompt, a resource or a template of resources, as an MCP server lists it.
type Feature struct {
	Name        string            `json:"name"`
	URI         string            `json:"uri,omitempty"`         // of a resource
	Template    string            `json:"uriTemplate,omitempty"` // of a template
	Description string            `json:"description,omitempty"`
	MIMEType    string            `json:"mimeType,omitempty"`
	Size        json.RawMessage   `json:"size,omitempty"` // bytes of a resource
	Arguments   []FeatureArgument `json:"arguments,omitempty"`
	Sum         [sha256.Size]byte `json:"-"` // digest of a prompt; only ParseFeatures sets it
	Extras
}

// FeatureArgument is an argument of a prompt.
type FeatureArgument struct {
	Name        string          `json:"name"`
	Title       json.RawMessage `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Required    bool            `json:"required,omitempty"`
}

// Features holds what an MCP server lists besides tools.
type Features struct {
	Prompts   []*Feature `json:"prompts"`
	Resources []*Feature `json:"resources"`
	Templates []*Feature `json:"templates"`

	// Only ParseFeatures sets these.
	URIs        *URIs             `json:"-"` // of the resources and templates
	Sum         [sha256.Size]byte `json:"-"` // digest of all
	ResourceSum [sha256.Size]byte `json:"-"` // digest of the resources and templates
}

// Limits of features, in bytes.
const (
	MaxURI        = 2048
	maxPromptName = 128
	maxTemplate   = 512
	maxFeature    = MaxExtras // without its extras
	argumentBytes = 64        // of the JSON of an argument without its texts
)

// Limits of templates, which bound the time to find the server of a URI.
const (
	MaxTemplates   = 100 // of a server
	maxExpressions = 8   // of a template
)

// Length returns the length of a feature in bytes.
func (f *Feature) Length() int {
	n := len(f.Name) + len(f.URI) + len(f.Template) + len(f.Description) + len(f.MIMEType) + len(f.Size)
	for i := range f.Arguments {
		a := &f.Arguments[i]
		n += argumentBytes + len(a.Name) + len(a.Description) + len(a.Title)
	}
	return n + f.Extras.Size()
}

// Check removes the members of a feature that have another type than MCP's. The error is the reason why clients cannot
// use the feature. key is its name or URI.
func (f *Feature) Check(key string) error {
	if sound := f.Sound(); sound != nil {
		f.Extras = *sound
	} else {
		f.Extras = Extras{}
	}
	var size float64
	if json.Unmarshal(f.Size, &size) != nil || size < 0 {
		f.Size = nil
	}
	for i := range f.Arguments {
		a := &f.Arguments[i]
		if a.Name == "" {
			return errors.New("an argument has no name")
		}
		if !is[string](a.Title) {
			a.Title = nil
		}
	}
	switch {
	case f.Length()-f.Extras.Size() > maxFeature:
		return fmt.Errorf("it is longer than %d bytes", maxFeature)
	case f.URI == "" && f.Template == "":
		return CheckPrompt(key)
	case f.Name == "":
		return errors.New("it has no name")
	case f.Template != "":
		return checkTemplate(key)
	}
	return CheckURI(key)
}

// checkTemplate returns why a text cannot be a template of URIs; nil means it can.
func checkTemplate(template string) error {
	switch {
	case len(template) > maxTemplate:
		return fmt.Errorf("its template is longer than %d bytes", maxTemplate)
	case strings.Count(template, "{") > maxExpressions:
		return fmt.Errorf("its template has more than %d expressions", maxExpressions)
	}
	return CheckURI(template)
}

// CheckPrompt returns why a name cannot be that of a prompt; nil means it can.
func CheckPrompt(name string) error {
	printable := func(c rune) bool { return c >= ' ' && c <= '~' }
	if name == "" || len(name) > maxPromptName || strings.TrimSpace(name) != name ||
		strings.ContainsFunc(name, func(c rune) bool { return !printable(c) }) {
		return fmt.Errorf("its name must be 1 to %d printable ASCII characters", maxPromptName)
	}
	return nil
}

// ErrLongURI is the error of CheckURI for a text that is only too long.
var ErrLongURI = fmt.Errorf("its URI is longer than %d bytes", MaxURI)

// CheckURI returns why a text cannot be the URI of a resource, or a template of URIs; nil means it can. It must have a
// scheme (RFC 3986 §3.1), and neither spaces nor control characters.
func CheckURI(uri string) error {
	scheme, _, ok := strings.Cut(uri, ":")
	switch {
	case !ok || scheme == "" || strings.Trim(scheme, schemeLetters) != "":
		return errors.New("its URI has no scheme")
	case !utf8.ValidString(uri) || strings.ContainsFunc(uri, unicode.IsSpace) ||
		strings.ContainsFunc(uri, unicode.IsControl):
		return errors.New("its URI has a space or a control character")
	case len(uri) > MaxURI:
		return ErrLongURI
	}
	return nil
}

const schemeLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-."

// ParseFeatures parses the response of ListFeatures.
func ParseFeatures(text []byte) (*Features, error) {
	f := new(Features)
	if err := json.Unmarshal(text, f); err != nil {
		return nil, fmt.Errorf("read the features of an MCP server: %w", err)
	}
	var raw struct {
		Prompts              []json.RawMessage
		Resources, Templates json.RawMessage
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("read the features of an MCP server: %w", err)
	}
	for i, prompt := range raw.Prompts {
		f.Prompts[i].Sum = sha256.Sum256(prompt)
	}
	f.URIs, f.Sum = newURIs(f), sha256.Sum256(text)
	f.ResourceSum = sha256.Sum256(slices.Concat(raw.Resources, []byte("\n"), raw.Templates))
	return f, nil
}

// Find returns the feature with a name; nil means there is none.
func Find(all []*Feature, name string) *Feature {
	if i := slices.IndexFunc(all, func(f *Feature) bool { return f.Name == name }); i >= 0 {
		return all[i]
	}
	return nil
}
