package toolsets

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/toolset"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// text is a toolset as the configuration has it, without tenants.
type text struct {
	Name   string      `json:"name"`
	Groups []string    `json:"groups,omitempty"`
	Tools  []entryText `json:"tools"`
}

type entryText struct {
	Capability  string `json:"capability"`
	Tool        string `json:"tool,omitempty"`
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
	Hash        string `json:"hash,omitempty"`
	Arguments   any    `json:"arguments,omitempty"`
}

// textOf returns the text of a toolset. It checks only what the text would hide.
func textOf(t *capgatepb.Toolset) ([]byte, error) {
	of := text{Name: t.GetName(), Groups: t.GetGroups(), Tools: []entryText{}}
	for _, e := range t.GetTools() {
		one := entryText{e.GetCapability(), e.GetTool(), e.GetName(), e.GetDescription(), e.GetHash(), nil}
		if args := e.GetArguments(); args != "" {
			if _, err := toolset.ParseArguments([]byte(args)); err != nil {
				return nil, call.InvalidField(pages.Reason, "tools.arguments", err.Error())
			}
			d := json.NewDecoder(strings.NewReader(args))
			d.UseNumber()
			if err := d.Decode(&one.Arguments); err != nil {
				return nil, call.InvalidField(pages.Reason, "tools.arguments", "must be a JSON object")
			}
		}
		of.Tools = append(of.Tools, one)
	}
	data, err := plainjson.Marshal(of)
	data = []byte(unprintable.Replace(string(data)))
	if err == nil && len(data) > toolset.MaxText {
		return nil, call.InvalidField(pages.Reason, "toolset", "must have at most 64 KiB")
	}
	return data, err
}

// unprintable escapes the characters that YAML does not have, or reads as ends of lines.
var unprintable = func() *strings.Replacer {
	pairs := []string{"\ufeff", `\ufeff`, "\ufffe", `\ufffe`, "\uffff", `\uffff`}
	for c := '\u007f'; c < '\u00a0'; c++ {
		pairs = append(pairs, string(c), fmt.Sprintf(`\u%04x`, c))
	}
	return strings.NewReplacer(pairs...)
}()

// invalid returns the refusal of a toolset with an error of the text.
func invalid(err error) error {
	var all strictyaml.Errors
	if errors.As(err, &all) && len(all) > 0 {
		if all[0].Path == "" {
			return call.InvalidField(pages.Reason, "toolset", all[0].Text)
		}
		return call.InvalidField(pages.Reason, all[0].Path, all[0].Text)
	}
	return call.InvalidField(pages.Reason, "toolset", err.Error())
}
