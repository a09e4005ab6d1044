package tenant

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"

	"github.com/capgate/capgate/internal/call"
)

const (
	// maxGrants is the largest number of patterns of a tenant, and maxGrant the largest length of one, in
	// bytes. Calls to the gateway's own services carry them.
	maxGrants = 256
	maxGrant  = 128
)

// Grants are the capabilities that a tenant may see. The zero value is none. They are immutable.
type Grants struct {
	written  []string
	all      bool
	names    map[string]struct{}
	prefixes []string // patterns with one *, at their end
	patterns []string // other patterns, of path.Match
}

// ParseGrants parses patterns (path.Match) of capabilities; "*" stands for all of them. The error names the
// wrong pattern.
func ParseGrants(patterns []string) (g Grants, err error) {
	if len(patterns) > maxGrants {
		return g, fmt.Errorf("there are %d patterns; at most %d are allowed", len(patterns), maxGrants)
	}
	g.written, g.names = append([]string(nil), patterns...), map[string]struct{}{}
	for _, p := range g.written {
		if wrong := CheckGrant(p); wrong != "" {
			return Grants{}, errors.New(wrong)
		}
		prefix, starred := strings.CutSuffix(p, "*")
		switch {
		case p == "*":
			g.all = true
		case !special(p):
			g.names[p] = struct{}{}
		case starred && !special(prefix):
			g.prefixes = append(g.prefixes, prefix)
		default:
			g.patterns = append(g.patterns, p)
		}
	}
	return g, nil
}

// CheckGrant returns the problem of a pattern, or "".
func CheckGrant(pattern string) string {
	if len(pattern) > maxGrant {
		return fmt.Sprintf("a pattern may have at most %d bytes", maxGrant)
	}
	_, err := path.Match(pattern, "")
	if err != nil || !special(pattern) && !call.IsLabel(pattern) || strings.ContainsFunc(pattern, unicode.IsSpace) {
		return fmt.Sprintf("%q is not a pattern; write a capability's name, in which * matches any text", pattern)
	}
	return ""
}

// special reports whether a pattern has special characters.
func special(pattern string) bool { return strings.ContainsAny(pattern, `*?[\`) }

// Patterns returns the patterns passed to ParseGrants. The caller must not change them.
func (g *Grants) Patterns() []string { return g.written }

// Include reports whether a capability matches a pattern.
func (g *Grants) Include(capability string) bool {
	if g.all {
		return true
	}
	if _, ok := g.names[capability]; ok {
		return true
	}
	for _, p := range g.prefixes {
		if strings.HasPrefix(capability, p) {
			return true
		}
	}
	for _, p := range g.patterns {
		if ok, _ := path.Match(p, capability); ok {
			return true
		}
	}
	return false
}
