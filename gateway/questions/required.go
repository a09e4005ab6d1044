package questions

import "encoding/json"

// A server may refuse a call because its client does not declare that it answers the questions of the call (2026-07-28,
// Base Protocol, "Error Codes").
const (
	Missing  = "MCP_CAPABILITY_MISSING" // reason of such a call
	Required = "required_capabilities"  // its metadata with the capabilities as JSON; absent if no client may have them
)

// Needed returns the kinds that a client must declare; 0 means that the capabilities are not those of questions alone.
func Needed(capabilities map[string]map[string]json.RawMessage) (all Kinds) {
	for name, of := range capabilities {
		kinds := kindsOf(name, of)
		if kinds == 0 {
			return 0
		}
		all |= kinds
	}
	return all
}

// kindsOf returns the kinds of a capability with these members; 0 means another capability.
func kindsOf(name string, of map[string]json.RawMessage) (all Kinds) {
	switch {
	case name == "elicitation":
		for mode := range of {
			switch mode {
			case "form":
				all |= Forms
			case "url":
				all |= URLs
			default:
				return 0
			}
		}
		if all == 0 {
			all = Forms
		}
	case len(of) > 0:
	case name == "sampling":
		all = Sampling
	case name == "roots":
		all = Roots
	}
	return all
}

// Capabilities returns the capabilities of a client that answers these kinds, as JSON.
func (k Kinds) Capabilities() string {
	type object = map[string]any
	all := object{}
	if k&Elicitation != 0 {
		modes := object{}
		if k&Forms != 0 {
			modes["form"] = object{}
		}
		if k&URLs != 0 {
			modes["url"] = object{}
		}
		all["elicitation"] = modes
	}
	if k&Sampling != 0 {
		all["sampling"] = object{}
	}
	if k&Roots != 0 {
		all["roots"] = object{}
	}
	text, _ := json.Marshal(all) // objects can always be encoded
	return string(text)
}
