package call

// Method is the kind of RPC that a call makes, whatever the dialect's name for it.
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

// Dialect is one of the shapes in which the capability protocol is spoken.
type Dialect uint8

// The dialects. Auto means: not known, to be found out by asking the backend.
const (
	Auto   Dialect = iota
	Doc            // selu.capability.Capability
	Live           // selu.capability.v1.Capability
	Legacy         // selu.capability.v1.CapabilityService
)

var dialectNames = [...]string{"auto", "doc", "live", "legacy"}

func (d Dialect) String() string { return dialectNames[d] }

// ParseDialect reads a dialect's name as the configuration spells it.
// The empty name is Auto.
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

// Class is what kind of capability a fleet serves.
type Class uint8

// The classes.
const (
	Tool        Class = iota // answers each call by itself
	Environment              // keeps state between the calls of a session
)

var classNames = [...]string{"tool", "environment"}

func (c Class) String() string { return classNames[c] }

// ParseClass reads a class's name as the configuration spells it.
func ParseClass(name string) (Class, bool) {
	for i, n := range classNames {
		if n == name {
			return Class(i), true
		}
	}
	return Tool, false
}

// Call is what the gateway knows about one call while it passes through.
// It holds neither arguments nor results.
type Call struct {
	Tenant     string  // who calls; "default" when single-tenant
	User       string  // on whose behalf, "" where the caller did not say
	Agent      string  // by which agent, "" where the caller did not say
	Key        string  // id of the API key that was shown, "" where there are none
	Path       string  // gRPC path as it was sent, "/package.Service/Method"
	Service    string  // "package.Service", the middle of Path
	Method     Method  // which RPC Path names
	Dialect    Dialect // the dialect that the caller speaks; Auto when Method is Other
	Capability string  // routing key; "" until it is known
	Tool       string  // tool_name, "" where the RPC has none
	Session    string  // session_id, or metadata x-session-id where that is asked for; "" where there is none
}
