package call

import "slices"

// Level is how near to the caller that is which decided on a call. The nearest that says
// something decides.
type Level uint8

// The levels, in the order in which they are looked at.
const (
	ByUserAgent   Level = iota // a rule about this user with this agent
	ByUser                     // a rule about this user
	ByTenantAgent              // a rule about this agent, in this tenant
	ByTenant                   // a rule about this tenant
	ByGlobal                   // a rule about everybody
	ByManifest                 // what the tool's manifest recommends
	ByFleet                    // the fleet's own word for tools without a recommendation
	ByDefault                  // nothing says anything, which blocks
	ByShield                   // a Shield, asked after all of these, is stricter than they are
	numLevels
)

// NumLevels is how many there are: each is below it.
const NumLevels = int(numLevels)

var levelNames = [numLevels]string{"user+agent", "user", "tenant+agent", "tenant", "global", "manifest", "fleet",
	"default", "shield"}

func (l Level) String() string { return levelNames[l] }

// IsLevel says whether a word is the name of a level.
func IsLevel(word string) bool { return slices.Contains(levelNames[:], word) }
