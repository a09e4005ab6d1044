package files

import (
	"cmp"
	"time"

	"google.golang.org/grpc"

	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// Config bounds uploads and downloads. The zero value works.
type Config struct {
	MaxSize int64         // bytes of a request's body; default 1 GiB
	Stall   time.Duration // how long a client may send nothing, or read nothing; default 1 min
}

// DefaultMaxSize is the default maximum size of a request's body.
const DefaultMaxSize = 1 << 30

// maxFiles is how many files one form may have.
const maxFiles = 100

// capabilityHeader names the capability of a call whose message does not.
const capabilityHeader = "x-capability-id"

// Files carries files. It is safe for concurrent use and has nothing to close.
type Files struct {
	client docpb.CapabilityClient
	cfg    Config
}

// New returns what carries files to and from the gateway that conn leads to. The outgoing
// metadata of requests' contexts goes along with the calls.
func New(conn grpc.ClientConnInterface, cfg Config) *Files {
	cfg.MaxSize, cfg.Stall = cmp.Or(cfg.MaxSize, DefaultMaxSize), cmp.Or(cfg.Stall, time.Minute)
	return &Files{client: docpb.NewCapabilityClient(conn), cfg: cfg}
}
