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
	// maxGrants is how many patterns a tenant may have, and maxGrant how long each may be,
	// in bytes. They go along with what a caller asks of the gateway's own services.
	maxGrants = 256
	maxGrant  = 128
)

// Grants are the capabilities that there are for a tenant. The zero value is none. They are
// never changed.
type Grants struct {
	written  []string
	all      bool
	names    map[string]struct{}
	prefixes []string // of patterns with one *, at their end
	patterns []string // the others, of path.Match
}

// ParseGrants reads patterns (path.Match) of capabilities; "*" is all of them. The error
// says what is wrong with which.
func ParseGrants(patterns []string) (g Grants, err error) {
	if len(patterns) > maxGrants {
		return g, fmt.Errorf("there are %d of them; at most %d patterns may be granted", len(patterns), maxGrants)
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

// CheckGrant says what is wrong with one pattern; "": nothing.
func CheckGrant(pattern string) string {
	if len(pattern) > maxGrant {
		return fmt.Sprintf("a pattern may have %d bytes", maxGrant)
	}
	_, err := path.Match(pattern, "")
	if err != nil || !special(pattern) && !call.IsLabel(pattern) || strings.ContainsFunc(pattern, unicode.IsSpace) {
		return fmt.Sprintf("%q is not a pattern; write a capability's name, where * stands for anything", pattern)
	}
	return ""
}

// special says whether a pattern means more than itself.
func special(pattern string) bool { return strings.ContainsAny(pattern, `*?[\`) }

// Patterns are what ParseGrants read. They must not be changed.
func (g *Grants) Patterns() []string { return g.written }

// Include says whether a capability is among them.
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
