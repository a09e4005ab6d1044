package files

import (
	"cmp"
	"time"

	"google.golang.org/grpc"

	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// Config configures uploads and downloads. The zero value is valid.
type Config struct {
	// Maximum size of one file, or one form of files, in one request.
	MaxSize int64 `yaml:"max_size" kind:"size" default:"1GiB"`

	Stall time.Duration // maximum time for which a client may send or read nothing; default 1 min
}

// DefaultMaxSize is the default maximum size of a request's body.
const DefaultMaxSize = 1 << 30

// maxFiles is the maximum number of files of a form.
const maxFiles = 100

// capabilityHeader names the capability of a call whose message does not.
const capabilityHeader = "x-capability-id"

// Files transfers files. It is safe for concurrent use and need not be closed.
type Files struct {
	client docpb.CapabilityClient
	cfg    Config
}

// New returns Files that makes its calls over conn, with the outgoing metadata of requests' contexts.
func New(conn grpc.ClientConnInterface, cfg Config) *Files {
	cfg.MaxSize, cfg.Stall = cmp.Or(cfg.MaxSize, DefaultMaxSize), cmp.Or(cfg.Stall, time.Minute)
	return &Files{client: docpb.NewCapabilityClient(conn), cfg: cfg}
}
