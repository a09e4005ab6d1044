package call

// Limit is a kind of limit of a tenant.
type Limit uint8

// The limits.
const (
	CallsPerSecond Limit = iota
	Concurrent           // concurrent calls
	BytesPerSecond
	ArtifactSize
	Messages // messages of one stream
	PerDay   // calls from midnight to midnight, UTC
	PerMonth // calls from the first of the month to the next, UTC
	numLimits
)

// NumLimits is the number of limits; each is below it.
const NumLimits = int(numLimits)

var limitNames = [numLimits]string{"calls_per_second", "concurrent", "bytes_per_second", "artifact_size", "messages",
	"per_day", "per_month"}

func (l Limit) String() string { return limitNames[l] }

// ParseLimit returns the limit of a name.
func ParseLimit(name string) (Limit, bool) {
	for i := range limitNames {
		if limitNames[i] == name {
			return Limit(i), true
		}
	}
	return 0, false
}
