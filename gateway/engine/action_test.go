package engine

import "testing"

// TestActionOf shows of an action what can be masked.
func TestActionOf(t *testing.T) {
	t.Parallel()
	for summary, want := range map[string][2]string{
		`execute_command: {"command":"ls"}`: {"execute_command", `{"command":"ls"}`},
		`mcp:files.read-all: {}`:            {"mcp:files.read-all", "{}"},
		`write_file: {"path":"a","cont...`:  {"write_file", ""},
		"write_file":                        {"write_file", ""},
		"Running: rm -rf /":                 {"Running", ""},
		"rm -rf / as root":                  {unknownTool, ""},
		"":                                  {unknownTool, ""},
	} {
		if tool, args := actionOf(summary); tool != want[0] || string(args) != want[1] {
			t.Errorf("%q: %q, %q", summary, tool, args)
		}
	}
}

// TestBlankEvents: an event that has only its ids says that a person is asked; any other content says something else.
func TestBlankEvents(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]bool{
		"\x0a\x01s\x12\x01m":             true,
		"\x0a\x01s\x12\x01m\x18\x00":     true,  // its type is 0
		"\x0a\x01s":                      true,  // without a message
		"\x12\x01m":                      false, // no session's
		"\x0a\x01s\x12\x01m\x18\x07":     false, // of a type
		"\x0a\x01s\x12\x01m\xf2\x01\x00": false, // of a type that is unknown here: it has content
		"":                               false,
	} {
		if e, ok := eventOf([]byte(raw)); !ok || e.blank != want {
			t.Errorf("%x: %t, %t", raw, ok, e.blank)
		}
	}
}
