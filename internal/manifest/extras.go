package manifest

import (
	"crypto/sha256"
	"encoding/json"

	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/toolschema"
)

// Extras are the members of a tool that an MCP server lists and that no manifest has, as the server has them. A member
// that the server leaves out is nil.
type Extras struct {
	Title       json.RawMessage `json:"title,omitempty"`
	Icons       json.RawMessage `json:"icons,omitempty"`
	Annotations json.RawMessage `json:"annotations,omitempty"`
	Meta        json.RawMessage `json:"_meta,omitempty"`

	audience audience // of Meta, which lists and calls read often
}

// MaxExtras is the greatest length of a tool's extras, in bytes.
const MaxExtras = 256 << 10

// extrasOf reads extras. Another value is none.
func extrasOf(text json.RawMessage) *Extras {
	var e *Extras
	if json.Unmarshal(text, &e) != nil {
		return nil
	}
	return e.Sound()
}

// Sound returns the members that have the types of MCP: clients reject a whole list for any other. It returns nil if
// there are none, or if they are too long.
func (e *Extras) Sound() *Extras {
	if e == nil || e.Size() > MaxExtras {
		return nil
	}
	sound := &Extras{Annotations: soundAnnotations(e.Annotations)}
	if is[string](e.Title) {
		sound.Title = e.Title
	}
	if soundIcons(e.Icons) {
		sound.Icons = e.Icons
	}
	if is[map[string]json.RawMessage](e.Meta) {
		sound.Meta, sound.audience = e.Meta, audienceOf(e.Meta)
	}
	if sound.Size() == 0 {
		return nil
	}
	return sound
}

// Size returns the length of the members in bytes; 0 of nil.
func (e *Extras) Size() int {
	if e == nil {
		return 0
	}
	return len(e.Title) + len(e.Icons) + len(e.Annotations) + len(e.Meta)
}

// is reports whether JSON is a value of a type, and not null.
func is[T any](text json.RawMessage) bool {
	var value *T
	return json.Unmarshal(text, &value) == nil && value != nil
}

// soundIcons reports whether JSON is a list of icons, as MCP has them.
func soundIcons(text json.RawMessage) bool {
	var icons []map[string]json.RawMessage
	if json.Unmarshal(text, &icons) != nil || icons == nil {
		return false
	}
	for _, icon := range icons {
		if !is[string](icon["src"]) {
			return false
		}
		for name, value := range icon {
			switch name {
			case "mimeType", "theme":
				if !is[string](value) {
					return false
				}
			case "sizes":
				if !is[[]string](value) {
					return false
				}
			}
		}
	}
	return true
}

// soundAnnotations returns annotations without the hints that have another type than MCP's; nil without hints.
func soundAnnotations(text json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil || members == nil {
		return nil
	}
	all := len(members)
	for name, value := range members {
		sound := true
		switch name {
		case "title":
			sound = is[string](value)
		case "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint":
			sound = is[bool](value)
		}
		if !sound {
			delete(members, name)
		}
	}
	if len(members) == all {
		return text
	}
	sound, err := plainjson.Marshal(members)
	if err != nil {
		return nil
	}
	return sound
}

// JSON returns the extras in canonical form, with which equal ones are equal; nil for empty extras.
func (e *Extras) JSON() []byte {
	if e == nil {
		return nil
	}
	text, err := plainjson.Marshal(e)
	if err != nil {
		return nil
	}
	canonical, err := toolschema.Canonical(text)
	if err != nil {
		return text
	}
	return canonical
}

// Hash identifies what an agent learns of the tool.
func (t *Tool) Hash() toolschema.Hash {
	h := t.Schema.Hash(t.Description, t.Output)
	if t.Extras == nil {
		return h
	}
	return sha256.Sum256(append(h[:], t.Extras.JSON()...))
}
