package rest

import (
	"net/http"
	"strconv"

	grpcstatus "google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/plainjson"
)

const approvalWait = "X-Approval-Wait" // header and metadata: seconds

// awaiting is the response to a call that needs an approval.
type awaiting struct {
	Status string `json:"status"`
	// Approval is only in this response of a call, so that typed clients recognize it.
	Approval awaited `json:"approval"`
	ID       string  `json:"approval_id"`
	Expires  string  `json:"expire_time"` // RFC 3339; the call is denied if there is no answer by then
	Detail   string  `json:"detail"`
}

type awaited struct {
	ID      string `json:"id"`
	Path    string `json:"path"`
	Link    string `json:"link,omitempty"` // URL of the page that answers it
	Expires string `json:"expire_time"`
}

// awaitApproval responds to a request whose call waits for an approval: 202, with where to look. It returns false for
// any other error.
func awaitApproval(w http.ResponseWriter, err error) bool {
	details := status.DetailsOf(err)
	of := details.Own.GetMetadata()
	id := of["approval"]
	if details.Own.GetReason() != call.ApprovalRequired || id == "" {
		return false
	}
	path, expires := "/v1/approvals/"+id, of["expires"]
	asked := awaited{ID: id, Path: path, Link: of["approval_link"], Expires: expires}
	out, err := plainjson.Marshal(awaiting{Status: "approval_required", Approval: asked, ID: id, Expires: expires,
		Detail: grpcstatus.Convert(err).Message()})
	if err != nil {
		return false
	}
	head := w.Header()
	head.Set("Content-Type", "application/json")
	head.Set("Location", path)
	if seconds := int(details.RetryAfter.Seconds()); seconds > 0 {
		head.Set("Retry-After", strconv.Itoa(seconds))
	}
	w.WriteHeader(http.StatusAccepted)
	_, _ = w.Write(append(out, '\n')) // the client may have disconnected
	return true
}
