package web

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/capgate/capgate/internal/lib/fairshare"
)

// TestOutliveAborts: the handler of an incomplete response over HTTP/1.1 makes net/http's server close the connection.
func TestOutliveAborts(t *testing.T) {
	t.Parallel()
	for _, aborted := range []error{nil, errors.New("incomplete")} {
		v := &Request{r: httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)}
		v.results.begin(v, fairshare.New("results", 1<<20))
		v.Outlive(func() {})(aborted)
		func() {
			defer func() {
				if got := recover(); (got == http.ErrAbortHandler) != (aborted != nil) {
					t.Errorf("the handler of a response that ends with %v: %v", aborted, got)
				}
			}()
			v.await()
		}()
	}
}
