package redisurl

// Kind is the kind of a Redis deployment.
type Kind int

// The kinds. Embedded is a small Redis inside this process, for a gateway with a single replica.
const (
	Embedded Kind = iota
	Single
	Sentinel
	Cluster
)

func (k Kind) String() string {
	return [...]string{"embedded", "single", "sentinel", "cluster"}[k]
}

// Target is a Redis and the account to use there.
type Target struct {
	Kind     Kind
	TLS      bool
	Addrs    []string // host:port each: the server, the Sentinels, or some nodes of the Cluster
	Master   string   // name of the master at the Sentinels; only for Sentinel
	DB       int      // number of the database; only for Single and Sentinel
	Username string   // "" is the default user of Redis
	Password string

	SentinelUsername string // account at the Sentinels
	SentinelPassword string
}
