package call

// Verdict is the decision about a tool call. The zero value blocks.
type Verdict uint8

// The verdicts. The stricter one is smaller.
const (
	Block Verdict = iota // the call is refused
	Ask                  // the call needs a person's approval
	Allow                // the call continues
)

var verdictNames = [...]string{"block", "ask", "allow"}

func (v Verdict) String() string { return verdictNames[v] }

// ParseVerdict parses a verdict. Unknown names block.
func ParseVerdict(name string) (Verdict, bool) {
	for i, n := range verdictNames {
		if n == name {
			return Verdict(i), true
		}
	}
	return Block, false
}
