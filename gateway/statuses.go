package gateway

import (
	grpcstatus "google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
)

// GRPCStatus is status.Answer.
func GRPCStatus(r *call.Refusal) *grpcstatus.Status { return status.Answer(r) }
