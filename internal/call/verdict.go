package call

// Verdict is what becomes of a call of a tool. The zero value blocks.
type Verdict uint8

// The verdicts, the stricter the smaller.
const (
	Block Verdict = iota // the call is refused
	Ask                  // the call waits for a person's consent, outside the call
	Allow                // the call goes on
)

var verdictNames = [...]string{"block", "ask", "allow"}

func (v Verdict) String() string { return verdictNames[v] }

// ParseVerdict reads a verdict's name. What is none blocks.
func ParseVerdict(name string) (Verdict, bool) {
	for i, n := range verdictNames {
		if n == name {
			return Verdict(i), true
		}
	}
	return Block, false
}
