package manifest

import (
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/toolschema"
)

// Manifest is a valid manifest.yaml.
type Manifest struct {
	ID            string // lower-case letters, digits and hyphens, at most 63
	Class         call.Class
	Image         string
	Dynamic       bool   // the discovery tool lists the tools; Tools is empty
	DiscoveryTool string // the tool that lists the others; "" unless Dynamic
	Features      bool   // its backends are MCP servers, which may also have prompts and resources
	Tools         []Tool // in the order of the file
	Network       Network
	Filesystem    Filesystem
	Credentials   []Credential
	Resources     Resources
	Sharing       Sharing
	Cache         bool // answers may be cached; environments only
}

// Capability returns the id.
func (m *Manifest) Capability() string { return m.ID }

// The memory of a value and of a tool without their texts and schemas, in bytes.
const (
	valueBytes = 64
	toolBytes  = 400
)

// Size estimates the memory of the manifest in bytes.
func (m *Manifest) Size() int {
	n := toolBytes + len(m.ID) + len(m.Image) + len(m.DiscoveryTool)
	for i := range m.Tools {
		n += m.Tools[i].size()
	}
	for _, host := range m.Network.Hosts {
		n += valueBytes + len(host)
	}
	for i := range m.Credentials {
		n += 2*valueBytes + len(m.Credentials[i].Name) + len(m.Credentials[i].Description)
	}
	return n
}

// size estimates the memory of the tool in bytes.
func (t *Tool) size() int {
	return toolBytes + len(t.Name) + len(t.Description) + t.Schema.Size() + t.Output.Size()
}

// Tool is one function that agents can call.
type Tool struct {
	Name              string
	Description       string
	Schema            *toolschema.Schema // of its arguments
	Output            *toolschema.Schema // of its result; nil: unknown
	Extras            *Extras            // of a tool of an MCP server; nil: it has none
	Recommends        bool               // the author recommends a policy
	Recommended       call.Verdict       // the policy; Block without a recommendation
	TerminalOnSuccess bool               // it ends an agent's loop
}

// Unchecked returns the parts of the tool's schemas that calls are not checked against, each with the reason.
func (t *Tool) Unchecked() (notes []string) {
	for _, note := range t.Schema.Unchecked() {
		notes = append(notes, "arguments: "+note)
	}
	for _, note := range t.Output.Unchecked() {
		notes = append(notes, "result: "+note)
	}
	return notes
}

// Network is the network access of the capability.
type Network struct {
	Mode  NetworkMode
	Hosts []string // with Allowlist: "host:port", "*.host:port" or "*.host"
}

// NetworkMode is the extent of the network access.
type NetworkMode string

// The modes.
const (
	NoNetwork  NetworkMode = "none"
	Allowlist  NetworkMode = "allowlist"
	AnyNetwork NetworkMode = "any"
)

// Filesystem is the write access of the capability.
type Filesystem string

// The file systems.
const (
	NoFilesystem Filesystem = "none"      // nothing
	Temp         Filesystem = "temp"      // /tmp, until the container restarts
	Workspace    Filesystem = "workspace" // a volume; environments only
)

// Credential is a secret that the capability gets in config_json.
type Credential struct {
	Name        string // the name of the environment variable
	PerUser     bool   // one for each user; otherwise one for the system
	Required    bool
	Description string
}

// Resources are a container's limits.
type Resources struct {
	MaxMemoryMB    int           // mebibytes, default 128
	MaxCPUFraction float64       // cores, default 0.5
	MaxCPU         time.Duration // CPU time of one call, default 30 s; never 0
	PidsLimit      int           // processes and threads, default 64
}

// Sharing is the use of one container by sessions.
type Sharing struct {
	Shared        bool          // all sessions; otherwise each session has its own
	MaxConcurrent int           // concurrent calls, if Shared; default 1
	IdleTimeout   time.Duration // without calls until it may be stopped, if Shared; default 300 s
}
