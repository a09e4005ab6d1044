package signin

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/session"
)

// Me is the person or program of a request.
type Me struct {
	Name   string   `json:"name"`
	User   string   `json:"user"`
	Tenant string   `json:"tenant"` // "": all, or several
	Roles  []string `json:"roles"`  // all, whatever tenants they are for
	// of a person with roles for some tenants and for others: those for all tenants, and those for one each
	AllRoles []string      `json:"all_roles,omitzero"`
	Tenants  []TenantRoles `json:"tenants,omitempty"`
	Groups   []string      `json:"groups"`
	Via      string        `json:"via"`
	Issuer   string        `json:"issuer"`
	Expires  *time.Time    `json:"expire_time,omitempty"` // of the session
	CSRF     string        `json:"csrf_token,omitempty"`  // of the session, for X-CSRF-Token
	Session  string        `json:"session,omitempty"`     // its id
	Insecure bool          `json:"insecure"`              // the port asks nobody who they are
}

// TenantRoles are roles for one tenant.
type TenantRoles struct {
	Tenant string   `json:"tenant"`
	Roles  []string `json:"roles"`
}

// WriteMe responds with the person of a request, and with its session if it has one.
func (h *Handler) WriteMe(w http.ResponseWriter, r *http.Request, me Me, s *session.Session) {
	if s != nil {
		me.Expires, me.CSRF, me.Session = &s.Expires, s.CSRF, s.ID
	}
	if me.Roles == nil {
		me.Roles = []string{}
	}
	if me.Groups == nil {
		me.Groups = []string{}
	}
	writeJSON(w, r, me)
}

// Listed is a page of sessions.
type Listed struct {
	Sessions []session.Record `json:"sessions"`
	Next     string           `json:"next_page_token,omitempty"`
}

// Bounds of a page of sessions.
const (
	standardPage = 100
	longestPage  = 500
)

// ListSessions responds with the sessions of all ports that were issued and have not ended.
func (h *Handler) ListSessions(w http.ResponseWriter, r *http.Request) {
	all, refusal := h.cfg.Sessions.List(r.Context())
	if refusal != nil {
		h.problem(w, r, refusal)
		return
	}
	q := r.URL.Query()
	size, err := strconv.Atoi(q.Get("page_size"))
	if q.Get("page_size") != "" && (err != nil || size < 0) {
		h.problem(w, r, call.InvalidField("INVALID_PAGE_SIZE", "page_size", "it must be a non-negative number"))
		return
	}
	if size == 0 {
		size = standardPage
	}
	size = min(size, longestPage)
	if after := q.Get("page_token"); after != "" {
		for len(all) > 0 && positionOf(&all[0]) >= after { // the newest come first
			all = all[1:]
		}
	}
	page := Listed{Sessions: append([]session.Record{}, all[:min(size, len(all))]...)}
	if len(all) > size {
		page.Next = positionOf(&all[size-1])
	}
	writeJSON(w, r, page)
}

// positionOf returns the position of a session in the list: greater ones come first.
func positionOf(r *session.Record) string { return fmt.Sprintf("%020d-%s", r.Issued.UnixMilli(), r.ID) }

// readJSON decodes the body of a request.
func readJSON(w http.ResponseWriter, r *http.Request, v any) error {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxForm))
	if err != nil {
		return err
	}
	return strictjson.UnmarshalKnown(text, v)
}

// RevokeSessions ends one session, or those of a person or key, at all replicas.
func (h *Handler) RevokeSessions(w http.ResponseWriter, r *http.Request) (ended string, ok bool) {
	var asked struct {
		Session string `json:"session"`
		Name    string `json:"name"`
	}
	if readJSON(w, r, &asked) != nil || (asked.Session == "") == (asked.Name == "") ||
		len(asked.Session) > maxID || len(asked.Name) > maxForm {
		h.problem(w, r, &call.Refusal{Kind: call.InvalidArgument, Reason: "INVALID_BODY",
			Message: `the body must be JSON with either session, an id, or name, as GET /v1/sessions has them`})
		return "", false
	}
	var refusal *call.Refusal
	if ended = asked.Session; ended != "" {
		refusal = h.cfg.Sessions.End(r.Context(), ended, time.Time{})
	} else {
		ended = asked.Name
		refusal = h.cfg.Sessions.EndAll(r.Context(), ended)
	}
	if refusal != nil {
		h.problem(w, r, refusal)
		return "", false
	}
	writeJSON(w, r, struct{}{})
	return ended, true
}

// maxID exceeds the length of any session's id, in bytes.
const maxID = 64

func writeJSON(w http.ResponseWriter, r *http.Request, body any) {
	text, err := plainjson.Marshal(body)
	if err != nil { // every body of this package can be encoded
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	head := w.Header()
	head.Set("Content-Type", "application/json")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Cache-Control", "no-store")
	if r.Method != http.MethodHead {
		_, _ = w.Write(append(text, '\n')) // an error means that the client has left
	}
}

func retryAfter(refusal *call.Refusal) string {
	return strconv.FormatFloat(math.Ceil(refusal.RetryAfter.Seconds()), 'f', 0, 64)
}
