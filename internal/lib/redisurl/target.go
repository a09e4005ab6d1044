package redisurl

// Kind is how a Redis is run.
type Kind int

// The kinds. Embedded is a small one inside this process, for a gateway without siblings.
const (
	Embedded Kind = iota
	Single
	Sentinel
	Cluster
)

func (k Kind) String() string {
	return [...]string{"embedded", "single", "sentinel", "cluster"}[k]
}

// Target is a Redis and our account there.
type Target struct {
	Kind     Kind
	TLS      bool
	Addrs    []string // host:port each: the server, the Sentinels, or some nodes of the Cluster
	Master   string   // the name under which Sentinels know it; of Sentinel only
	DB       int      // number of the database; of Single and Sentinel only
	Username string   // "" is Redis' default user
	Password string

	SentinelUsername string // the account at the Sentinels
	SentinelPassword string
}
