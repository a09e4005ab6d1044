package admin

import (
	"net/http"
	"strconv"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/internal/mcpclients"
	"github.com/capgate/capgate/openapi"
)

// MountDocuments adds the OpenAPI document of the admin API to a mux: GET /openapi.json and GET /openapi.yaml.
// GET /docs leads to the screen Connect of the console.
func MountDocuments(mux *guard.Mux) {
	document := func(form string, read func() ([]byte, error)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			text, err := read()
			if err != nil {
				problem.Write(w, r, problem.Own(http.StatusInternalServerError, codes.Internal, "INTERNAL",
					"the document cannot be written"))
				return
			}
			w.Header().Set("Content-Type", form)
			w.Header().Set("Content-Length", strconv.Itoa(len(text)))
			w.Header().Set("Cache-Control", "private, no-cache")
			_, _ = w.Write(text) // the client may be gone; there is no way to report it
		}
	}
	mux.HandleFunc("GET /openapi.json", document("application/json",
		func() ([]byte, error) { return openapi.Admin(), nil }))
	mux.HandleFunc("GET /openapi.yaml", document("application/yaml", openapi.AdminYAML))
	mux.HandleFunc("GET "+mcpclients.Path, mcpclients.Serve)
	mux.HandleFunc("GET /docs", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/#/connect")
		w.WriteHeader(http.StatusSeeOther)
	})
}
