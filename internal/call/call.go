package call

// Method is the kind of RPC of a call, in any dialect.
type Method uint8

// The RPCs of the capability protocol. Other is any gRPC method outside it.
const (
	Other Method = iota
	Invoke
	StreamInvoke
	Healthcheck
	UploadInputArtifact
	DownloadOutputArtifact
)

var methodNames = [...]string{"Other", "Invoke", "StreamInvoke", "Healthcheck", "UploadInputArtifact",
	"DownloadOutputArtifact"}

func (m Method) String() string { return methodNames[m] }

// Dialect is one of the shapes of the capability protocol.
type Dialect uint8

// The dialects. Auto means unknown, to be detected by a probe of the backend.
const (
	Auto   Dialect = iota
	Doc            // selu.capability.Capability
	Live           // selu.capability.v1.Capability
	Legacy         // selu.capability.v1.CapabilityService
)

var dialectNames = [...]string{"auto", "doc", "live", "legacy"}

func (d Dialect) String() string { return dialectNames[d] }

// ParseDialect parses a dialect's name in the configuration. The empty name is Auto.
func ParseDialect(name string) (Dialect, bool) {
	if name == "" {
		return Auto, true
	}
	for i, n := range dialectNames {
		if n == name {
			return Dialect(i), true
		}
	}
	return Auto, false
}

// Class is the kind of capability that a fleet serves.
type Class uint8

// The classes.
const (
	Tool        Class = iota // answers each call independently
	Environment              // keeps state between the calls of a session
)

var classNames = [...]string{"tool", "environment"}

func (c Class) String() string { return classNames[c] }

// ParseClass parses a class's name in the configuration.
func ParseClass(name string) (Class, bool) {
	for i, n := range classNames {
		if n == name {
			return Class(i), true
		}
	}
	return Tool, false
}

// Call is the gateway's knowledge about one call. It holds neither arguments nor results.
type Call struct {
	Tenant     string  // tenant of the caller; "default" without tenants
	User       string  // user on whose behalf the call is made; "" if unknown
	Agent      string  // agent that makes the call; "" if unknown
	Key        string  // id of the API key; "" without credentials
	Path       string  // gRPC path as sent, "/package.Service/Method"
	Method     Method  // kind of RPC
	Dialect    Dialect // dialect of the caller; Auto if Method is Other
	Opened     bool    // the gateway has made Session for this call
	Changed    bool    // the tool has changed since the caller's toolset described it
	Capability string  // routing key; "" until it is known
	Tool       string  // tool_name; "" if the RPC has none
	Session    string  // session_id, or metadata x-session-id for RPCs without the field; "" if there is none
}
