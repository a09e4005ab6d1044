package kubeapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/capgate/capgate/internal/lib/untrusted"
)

// StatusError is a response other than 200, or an event ERROR in a watch.
type StatusError struct {
	Code       int // of HTTP
	Message    string
	RetryAfter time.Duration // 0: not said
}

// Error implements error.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("%d %s", e.Code, http.StatusText(e.Code))
	if e.Message != "" {
		text += ": " + e.Message
	}
	switch e.Code {
	case http.StatusUnauthorized:
		text += "; check that the token is one of this cluster and has not expired"
	case http.StatusForbidden:
		text += "; give the service account a role with the verbs list and watch for it"
	case http.StatusNotFound:
		text += "; check that the API server has this resource"
	}
	return text
}

// status is a metav1.Status.
type status struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Details struct {
		RetryAfterSeconds int `json:"retryAfterSeconds"`
	} `json:"details"`
}

// maxRetryAfter bounds the wait that a server may request.
const maxRetryAfter = time.Minute

// error returns the StatusError of s.
func (s *status) error() *StatusError {
	wait := min(time.Duration(max(s.Details.RetryAfterSeconds, 0))*time.Second, maxRetryAfter)
	return &StatusError{Code: s.Code, Message: untrusted.Beginning(s.Message, 300), RetryAfter: wait}
}

// statusError reads a response other than 200, whose body should be a metav1.Status.
func statusError(resp *http.Response) error {
	var s status
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxMessage)) // the code alone is an error
	if json.Unmarshal(body, &s) != nil {
		s.Message = string(body)
	}
	s.Code = resp.StatusCode
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		s.Details.RetryAfterSeconds = cmp.Or(s.Details.RetryAfterSeconds, seconds)
	}
	return s.error()
}

// expired reports whether the server no longer knows a version, or the rest of a list.
func expired(err error) bool {
	var s *StatusError
	return errors.As(err, &s) && s.Code == http.StatusGone
}

// retryAfter returns the wait that the server requests; 0: none.
func retryAfter(err error) time.Duration {
	var s *StatusError
	if errors.As(err, &s) {
		return s.RetryAfter
	}
	return 0
}
