package manifest

import (
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/toolschema"
)

// Manifest is a manifest.yaml that keeps to every rule.
type Manifest struct {
	ID            string // lower-case letters, digits and hyphens, at most 63
	Class         call.Class
	Image         string
	Dynamic       bool   // tools are asked for; Tools is empty
	DiscoveryTool string // the tool that lists the others; "" unless Dynamic
	Tools         []Tool // in the order of the file
	Network       Network
	Filesystem    Filesystem
	Credentials   []Credential
	Resources     Resources
	Sharing       Sharing
	Cache         bool // answers may be kept; environments only
}

// Tool is one function that agents can call.
type Tool struct {
	Name              string
	Description       string
	Schema            *toolschema.Schema // of its arguments
	Recommends        bool               // its author recommends a policy
	Recommended       call.Verdict       // what its author recommends; Block where nothing is said
	TerminalOnSuccess bool               // an agent's loop ends after it
}

// Network is where the capability may connect to.
type Network struct {
	Mode  NetworkMode
	Hosts []string // with Allowlist: "host:port", "*.host:port" or "*.host"
}

// NetworkMode is how far the network is open.
type NetworkMode string

// The modes.
const (
	NoNetwork  NetworkMode = "none"
	Allowlist  NetworkMode = "allowlist"
	AnyNetwork NetworkMode = "any"
)

// Filesystem is what the capability may write.
type Filesystem string

// The file systems.
const (
	NoFilesystem Filesystem = "none"      // nothing
	Temp         Filesystem = "temp"      // /tmp, until the container restarts
	Workspace    Filesystem = "workspace" // a volume; environments only
)

// Credential is a secret that the capability is given in config_json.
type Credential struct {
	Name        string // of the environment variable
	PerUser     bool   // each user has one; otherwise the system has
	Required    bool
	Description string
}

// Resources are a container's limits.
type Resources struct {
	MaxMemoryMB    int           // mebibytes, default 128
	MaxCPUFraction float64       // cores, default 0.5
	MaxCPU         time.Duration // of one call, default 30 s; 0 is not possible
	MaxCPUGiven    bool          // the file says it, so that it is meant for calls' deadlines too
	PidsLimit      int           // processes and threads, default 64
}

// Sharing is who uses one container.
type Sharing struct {
	Shared        bool          // all sessions; otherwise each session has its own
	MaxConcurrent int           // calls at one time, where Shared; default 1
	IdleTimeout   time.Duration // without a call it may be stopped, where Shared; default 300 s
}
