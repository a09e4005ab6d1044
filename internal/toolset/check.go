package toolset

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/toolschema"
)

// Bounds of toolsets.
const (
	maxSets    = 1024 // of a configuration
	maxOfOne   = 64   // of a tenant
	maxEntries = 256  // of a toolset
	maxTenants = 256  // of a toolset
	maxGroups  = 32   // of a toolset
)

var (
	setName  = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)
	toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)
)

// Names of tools that search for tools, which no other tool may have, and of paths below /mcp that are no toolsets.
var (
	searching = []string{"search_tools", "call_tool"} //nolint:gochecknoglobals // a table
	taken     = []string{"sse"}                       //nolint:gochecknoglobals // a table
)

// IsName reports whether a text can be the name of a toolset.
func IsName(name string) bool { return setName.MatchString(name) && !slices.Contains(taken, name) }

// CheckName returns the problem of a toolset's name, or "".
func CheckName(name string) string {
	if IsName(name) {
		return ""
	}
	return fmt.Sprintf("%.64q is not the name of a toolset; it has 1 to 63 lower-case letters, digits, hyphens and "+
		"underscores, begins with a letter or a digit, and is not sse", name)
}

// CheckToolName returns the problem of the name of a tool for clients, or "".
func CheckToolName(name string) string {
	switch {
	case !toolName.MatchString(name):
		return fmt.Sprintf("%.64q is not the name of a tool; it has 1 to 128 letters, digits, underscores, hyphens "+
			"and dots", name)
	case slices.Contains(searching, name):
		return name + " is the name of the gateway's own tool"
	}
	return ""
}

// CheckToolPattern returns the problem of a pattern of tools, or "".
func CheckToolPattern(pattern string) string {
	_, err := path.Match(pattern, "")
	isBlank := func(r rune) bool { return r <= ' ' || r == 0x7f }
	if err != nil || pattern == "" || strings.ContainsFunc(pattern, isBlank) {
		return fmt.Sprintf("%.64q is not a pattern; write a tool's name, in which * matches any text", pattern)
	}
	return ""
}

// Check implements strictyaml.Checker.
func (e *Entry) Check(at strictyaml.At) {
	for _, of := range []struct {
		field string
		given bool
	}{{"name", e.Name != ""}, {"description", e.Description != ""}, {"hash", e.Hash != toolschema.Hash{}},
		{"arguments", len(e.Arguments) > 0}} {
		switch {
		case !of.given || at.Failed():
		case !e.IsExact():
			at.Fail(of.field, "needs the exact names of a capability and a tool")
		case manifest.IsFeature(e.Tool):
			at.Fail(of.field, "is only for tools; %.128q is a prompt or another feature of an MCP server", e.Tool)
		}
	}
	if e.Description != "" && e.Hash == (toolschema.Hash{}) && !at.Failed() {
		at.Missing("hash", "required with description: the hash of the tool that it describes, which capgate catalog "+
			"show prints")
	}
}

// Check implements strictyaml.Checker.
func (s *Toolset) Check(at strictyaml.At) {
	for _, of := range []struct {
		field   string
		n, most int
	}{{"tenants", len(s.Tenants), maxTenants}, {"groups", len(s.Groups), maxGroups},
		{"tools", len(s.Tools), maxEntries}} {
		if of.n > of.most {
			at.Fail(of.field, "has %d entries; at most %d are allowed", of.n, of.most)
		}
	}
	names, tools := map[string]int{}, map[[2]string]int{}
	for i := range s.Tools {
		e, here := &s.Tools[i], at.Field("tools").Item(i)
		if first, twice := names[e.Name]; twice && e.Name != "" {
			here.Fail("name", "%s is already the name of tools[%d]", e.Name, first)
		}
		if first, twice := tools[[2]string{e.Capability, e.Tool}]; twice {
			here.Fail("", "%s of %s is already in tools[%d]", e.Tool, e.Capability, first)
		}
		if _, is := names[e.Name]; !is {
			names[e.Name] = i
		}
		if _, is := tools[[2]string{e.Capability, e.Tool}]; !is {
			tools[[2]string{e.Capability, e.Tool}] = i
		}
	}
}

// CheckAll records what is wrong with the toolsets of a configuration together. at is the place of their list, and
// unknown reports whether a tenant does not exist.
func CheckAll(at strictyaml.At, all []Toolset, unknown func(tenant string) bool) {
	if len(all) > maxSets {
		at.Fail("", "there are %d toolsets; at most %d are allowed", len(all), maxSets)
		return
	}
	count, ofAll := map[string]int{}, 0
	for i := range all {
		s, here := &all[i], at.Item(i)
		for _, id := range s.Tenants {
			if count[id]++; unknown(id) {
				here.Fail("tenants", "there is no tenant %s", id)
			}
		}
		if len(s.Tenants) == 0 {
			ofAll++
		}
		for j := range i {
			if s.Name != "" && all[j].Hides(s) {
				here.Fail("name", "%s never applies: toolsets[%d] has the same name and covers all its callers", s.Name,
					j)
				break
			}
		}
	}
	most := 0
	for _, n := range count {
		most = max(most, n)
	}
	if most+ofAll > maxOfOne {
		at.Fail("", "a tenant has %d toolsets; at most %d are allowed", most+ofAll, maxOfOne)
	}
}

// Hides reports whether no caller gets the toolset o, because s is before it.
func (s *Toolset) Hides(o *Toolset) bool {
	covers := func(all, some []string) bool {
		return len(all) == 0 || len(some) > 0 && !slices.ContainsFunc(some, func(one string) bool {
			return !slices.Contains(all, one)
		})
	}
	return s.Name == o.Name && covers(s.Tenants, o.Tenants) && covers(s.Groups, o.Groups)
}
