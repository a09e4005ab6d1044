package call

import "slices"

// Level is the level of the rule that decided about a call. The most specific level with a rule decides.
type Level uint8

// The levels, in order of precedence.
const (
	ByUserAgent   Level = iota // a rule about this user with this agent
	ByUser                     // a rule about this user
	ByTenantAgent              // a rule about all tenants
	ByTenant                   // the recommendation of the tool's manifest
	ByGlobal                   // the fleet's policy for tools without a recommendation
	ByManifest                 // no rule applies, which blocks
	ByFleet                    // a Shield, evaluated after all of these, was stricter
	ByDefault                  // nothing says anything, which blocks
	ByShield                   // a Shield, which is consulted after all of these, is stricter
	numLevels
)

// NumLevels is the number of levels; each is below it.
const NumLevels = int(numLevels)

var levelNames = [numLevels]string{"user+agent", "user", "tenant+agent", "tenant", "global", "manifest", "fleet",
	"default", "shield"}

func (l Level) String() string { return levelNames[l] }

// IsLevel reports whether a word is the name of a level.
func IsLevel(word string) bool { return slices.Contains(levelNames[:], word) }
