package call

// Limit is one of the limits that a tenant may have.
type Limit uint8

// The limits.
const (
	CallsPerSecond Limit = iota
	Concurrent           // calls that run at once
	BytesPerSecond
	ArtifactSize
	Messages // of one stream
	PerDay   // calls from midnight to midnight, UTC
	PerMonth // calls from the first of the month to the next, UTC
	numLimits
)

// NumLimits is how many there are: each is below it.
const NumLimits = int(numLimits)

var limitNames = [numLimits]string{"calls_per_second", "concurrent", "bytes_per_second", "artifact_size", "messages",
	"per_day", "per_month"}

func (l Limit) String() string { return limitNames[l] }
