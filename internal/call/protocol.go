package call

// Protocol is the protocol by which a call reached the gateway.
type Protocol uint8

// The protocols. The zero value is unknown.
const (
	UnknownProtocol Protocol = iota
	GRPC
	GRPCWeb
	Connect
	JSON
	MCP
	Inbox   // the page for approvals
	Console // the playground of the console
	Own     // calls that the gateway itself makes
	numProtocols
)

var protocolNames = [numProtocols]string{"", "grpc", "grpc-web", "connect", "json", "mcp", "inbox", "console",
	"gateway"}

func (p Protocol) String() string { return protocolNames[p] }
