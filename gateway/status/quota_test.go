package status

import (
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// TestQuotaFailure: the rejection by a limit names the limit, its owner, and when to retry.
func TestQuotaFailure(t *testing.T) {
	t.Parallel()
	st := Answer(tenant.Exceeded("acme", call.CallsPerSecond, 100, time.Second))
	var quota *errdetails.QuotaFailure
	var retry *errdetails.RetryInfo
	var info *errdetails.ErrorInfo
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.QuotaFailure:
			quota = d
		case *errdetails.RetryInfo:
			retry = d
		case *errdetails.ErrorInfo:
			info = d
		}
	}
	if quota == nil || len(quota.GetViolations()) != 1 || quota.GetViolations()[0].GetSubject() != "tenant:acme" {
		t.Errorf("quota %v", quota)
	}
	if retry.GetRetryDelay().AsDuration() != time.Second || info.GetReason() != "RATE_LIMITED" ||
		info.GetMetadata()["limit"] != "calls_per_second" || info.GetMetadata()["max"] != "100" {
		t.Errorf("%v, %v", retry, info)
	}
}
