package tracing

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"

	"github.com/capgate/capgate/internal/telemetry"
)

// schemaURL is the version of OpenTelemetry's semantic conventions, which define the names other than capgate's.
// Those of RPC and of generative AI still change; only this file has them.
const schemaURL = "https://opentelemetry.io/schemas/1.43.0"

// Attributes of RPC.
const (
	rpcMethod         = attribute.Key("rpc.method") // package.Service/Method, or otherMethod
	rpcMethodOriginal = attribute.Key("rpc.method_original")
	rpcStatus         = attribute.Key("rpc.response.status_code") // name of a gRPC code
	serverAddress     = attribute.Key("server.address")
	serverPort        = attribute.Key("server.port")
	errorType         = attribute.Key("error.type")
)

var rpcSystem = attribute.String("rpc.system.name", "grpc")

// otherMethod is the rpc.method of a method that no fleet and no service of the gateway has.
const otherMethod = "_OTHER"

// toolError is the error.type of a call that succeeded and whose tool reports an error, as the conventions of MCP
// have it.
const toolError = "tool_error"

// Attributes of generative AI: a call of a tool.
const (
	toolName = attribute.Key("gen_ai.tool.name")
	agentID  = attribute.Key("gen_ai.agent.id")
)

var executeTool = attribute.String("gen_ai.operation.name", "execute_tool")

// Attributes of tools/call requests of MCP, and of attempts at MCP servers.
const (
	mcpMethod        = attribute.Key("mcp.method.name")
	mcpRevision      = attribute.Key("mcp.protocol.version") // of requests
	networkTransport = attribute.Key("network.transport")
)

// Attributes of the process.
const (
	serviceName     = attribute.Key("service.name")
	serviceVersion  = attribute.Key("service.version")
	serviceInstance = attribute.Key("service.instance.id")
)

// Attributes of capgate.
const (
	capgateTenant     = attribute.Key("capgate.tenant")
	capgateCapability = attribute.Key("capgate.capability")
	capgateOutcome    = attribute.Key("capgate.outcome") // success, tool_error or incomplete
	capgatePolicy     = attribute.Key("capgate.policy")  // allow, ask or block
	capgateReason     = attribute.Key("capgate.reason")  // reason of the gateway's rejection
	capgateFailure    = attribute.Key("capgate.failure") // failure by which the relay ended the call
	capgateBytesIn    = attribute.Key("capgate.bytes_in")
	capgateBytesOut   = attribute.Key("capgate.bytes_out")
	capgateAttempt    = attribute.Key("capgate.try")  // number of a client span, from 1
	capgateLink       = attribute.Key("capgate.link") // kind of a link
	capgateFor        = attribute.Key("capgate.for")  // cause of a wait
)

// approvalAsked is the capgate.link from a call with an approval to the call that requested it.
const approvalAsked = "approval_asked"

// Events of a call that waits.
const (
	eventWait      = "wait"
	eventGo        = "go_on"
	firstByteEvent = "first_byte"
)

const (
	codeUnimplemented = 12
	codeUnavailable   = 14
)

// serverErrors are the codes that make a server span an error, one bit each: UNKNOWN, DEADLINE_EXCEEDED,
// UNIMPLEMENTED, INTERNAL, UNAVAILABLE and DATA_LOSS. For a client span every code but OK does.
const serverErrors = 1<<2 | 1<<4 | 1<<12 | 1<<13 | 1<<14 | 1<<15

// ended returns the attributes and the status of a span for a gRPC code.
func ended(code uint32, errors uint32) ([]attribute.KeyValue, codes.Code) {
	name := telemetry.CodeName(code)
	attrs := []attribute.KeyValue{rpcStatus.String(name)}
	if 1<<telemetry.KnownCode(code)&errors == 0 {
		return attrs, codes.Unset
	}
	return append(attrs, errorType.String(name)), codes.Error
}
