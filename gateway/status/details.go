package status

import (
	"bytes"
	"encoding/json"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

// Domain is the google.rpc.ErrorInfo.domain of the gateway's rejections. Backends use others.
const Domain = "capgate.dev"

// Details holds the parts of a status that the gateway reads.
type Details struct {
	Info *errdetails.ErrorInfo // nil means none
	// Own is the ErrorInfo of the gateway; nil, which has no reason, means that the gateway has not rejected the call.
	Own        *errdetails.ErrorInfo
	RetryAfter time.Duration // 0 means the status has no google.rpc.RetryInfo
	Quota      bool          // a limit rejected the call
}

// DetailsOf returns the details of a gRPC error of the gateway or of a backend.
func DetailsOf(err error) (d Details) {
	for _, detail := range status.Convert(err).Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			d.Info = detail
			if d.Own == nil && detail.GetDomain() == Domain {
				d.Own = detail
			}
		case *errdetails.RetryInfo:
			d.RetryAfter = max(detail.GetRetryDelay().AsDuration(), 0)
		case *errdetails.QuotaFailure:
			d.Quota = true
		}
	}
	return d
}

// DetailsJSON returns the details of a status as JSON. A detail of an unknown type has its bytes as value.
func DetailsJSON(st *status.Status) (all []json.RawMessage) {
	for _, detail := range st.Proto().GetDetails() {
		text, err := protojson.Marshal(detail)
		if err != nil {
			text, _ = plainjson.Marshal(map[string]any{"@type": detail.GetTypeUrl(), "value": detail.GetValue()})
		}
		var compact bytes.Buffer
		if json.Compact(&compact, text) == nil { // protojson varies its whitespace
			all = append(all, compact.Bytes())
		}
	}
	return all
}

// InfoOf returns the ErrorInfo of a rejection by the gateway; nil, which has no reason, for other errors.
func InfoOf(err error) *errdetails.ErrorInfo { return DetailsOf(err).Own }

// ProgressOf returns NotSent if a gRPC error says that no backend received the call.
func ProgressOf(err error) call.Progress {
	if InfoOf(err).GetMetadata()[call.NotStarted] == "true" {
		return call.NotSent
	}
	return call.Sent
}

// newInfo returns the ErrorInfo of a rejection by the gateway.
func newInfo(reason string, metadata map[string]string, p call.Progress) *errdetails.ErrorInfo {
	info := &errdetails.ErrorInfo{Reason: reason, Domain: Domain, Metadata: make(map[string]string, len(metadata)+1)}
	for k, v := range metadata {
		info.Metadata[untrusted.UTF8(k)] = untrusted.UTF8(v) // protobuf requires UTF-8
	}
	if p == call.NotSent {
		info.Metadata[call.NotStarted] = "true"
	}
	return info
}
