package tracing

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
)

// schemaURL says where names come from that are not capgate's: OpenTelemetry's semantic
// conventions of this version. Those of RPC and of generative AI still change; this file is
// the only one that knows them.
const schemaURL = "https://opentelemetry.io/schemas/1.38.0"

// Of RPC.
const (
	rpcService    = attribute.Key("rpc.service")
	rpcMethod     = attribute.Key("rpc.method")
	rpcStatus     = attribute.Key("rpc.grpc.status_code")
	serverAddress = attribute.Key("server.address")
	serverPort    = attribute.Key("server.port")
	errorType     = attribute.Key("error.type")
)

var rpcSystem = attribute.String("rpc.system", "grpc")

// Of generative AI: a call of a tool.
const (
	toolName = attribute.Key("gen_ai.tool.name")
	agentID  = attribute.Key("gen_ai.agent.id")
)

var executeTool = attribute.String("gen_ai.operation.name", "execute_tool")

// Of the process.
const (
	serviceName     = attribute.Key("service.name")
	serviceVersion  = attribute.Key("service.version")
	serviceInstance = attribute.Key("service.instance.id")
)

// Of capgate.
const (
	capgateTenant     = attribute.Key("capgate.tenant")
	capgateCapability = attribute.Key("capgate.capability")
	capgateOutcome    = attribute.Key("capgate.outcome") // success, tool_error or incomplete
	capgatePolicy     = attribute.Key("capgate.policy")  // allow, ask or block
	capgateReason     = attribute.Key("capgate.reason")  // why the gateway refused
	capgateFailure    = attribute.Key("capgate.failure") // why the relay ended the call
	capgateBytesIn    = attribute.Key("capgate.bytes_in")
	capgateBytesOut   = attribute.Key("capgate.bytes_out")
	capgateAttempt    = attribute.Key("capgate.try")  // of a client span, from 1
	capgateLink       = attribute.Key("capgate.link") // why a link is there
	capgateFor        = attribute.Key("capgate.for")  // what a call waits for
)

// approvalAsked is the capgate.link of a call that a person has approved to the one that
// asked for that.
const approvalAsked = "approval_asked"

// Events of a call that waits.
const (
	eventWait = "wait"
	eventGo   = "go_on"
	firstByte = "first_byte"
)

// codeNames are gRPC's codes, as error.type has them.
var codeNames = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
	"ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED",
	"OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

const (
	codeUnknown     = 2
	codeUnavailable = 14
)

// serverErrors are the codes with which a server span is an error, one bit each: UNKNOWN,
// DEADLINE_EXCEEDED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE and DATA_LOSS. A client span is one
// with every code but OK.
const serverErrors = 1<<2 | 1<<4 | 1<<12 | 1<<13 | 1<<14 | 1<<15

// ended is what a gRPC code makes of a span: attributes and a status.
func ended(code uint32, errors uint32) ([]attribute.KeyValue, codes.Code) {
	if code >= uint32(len(codeNames)) {
		code = codeUnknown
	}
	attrs := []attribute.KeyValue{rpcStatus.Int(int(code))}
	if 1<<code&errors == 0 {
		return attrs, codes.Unset
	}
	return append(attrs, errorType.String(codeNames[code])), codes.Error
}
