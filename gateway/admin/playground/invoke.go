package playground

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"github.com/capgate/capgate/gateway/frontdoor/header"
	"github.com/capgate/capgate/gateway/frontdoor/invocation"
	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictjson"
)

// maxWait is the maximum wait of a call for an approval, in seconds.
const maxWait = 3600

// callAs is the body of POST /v1/playground:invoke.
type callAs struct {
	Tenant     string          `json:"tenant"`
	User       string          `json:"user"`
	Agent      string          `json:"agent"`
	Session    string          `json:"session"`
	Capability string          `json:"capability"`
	Tool       string          `json:"tool"`
	Arguments  json.RawMessage `json:"arguments"`
	Approval   string          `json:"approval_id"`
	Wait       int             `json:"wait"`
}

func (i *callAs) GetTenant() string { return i.Tenant }
func (i *callAs) GetUser() string   { return i.User }
func (i *callAs) GetAgent() string  { return i.Agent }

// serveInvoke serves a call as the JSON API does.
func (s *server) serveInvoke(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	in, err := readInvocation(r)
	if err != nil {
		rest.WriteProblem(w, r, status.Err(err))
		return
	}
	identity, err := s.identity(r.Context(), in)
	if err != nil {
		rest.WriteProblem(w, r, status.Err(err))
		return
	}
	inner, err := in.request(r.Context(), r.Header)
	if err != nil {
		rest.WriteProblem(w, r, status.Err(err))
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	s.Serve(w, inner, identity, hostOf(r.RemoteAddr))
}

// readInvocation reads the body of a request. The error is a *call.Refusal.
func readInvocation(r *http.Request) (*callAs, error) {
	text, err := io.ReadAll(r.Body)
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, &call.Refusal{Kind: call.ResourceExhausted, Reason: "BODY_TOO_LARGE",
			Message: "the body is larger than " + strconv.FormatInt(over.Limit, 10) + " bytes"}
	case err != nil:
		return nil, invocation.Invalid("the body could not be read to its end")
	}
	in := new(callAs)
	var strict *strictjson.Error
	switch err := strictjson.UnmarshalKnown(text, in); {
	case errors.As(err, &strict):
		return nil, invocation.Invalid("the body " + strict.Error())
	case err != nil:
		return nil, invocation.Invalid(
			"the body must be a JSON object with tenant, user, agent, session, capability, tool, arguments, " +
				"approval_id and wait, each once")
	}
	return in, in.check()
}

// check validates the fields. The error is a *call.Refusal.
func (i *callAs) check() error {
	for name, v := range map[string]string{"capability": i.Capability, "tool": i.Tool} {
		if v == "" || len(v) > maxName {
			return call.InvalidField(invalid, name, "it is required, with at most 256 bytes")
		}
	}
	for name, v := range map[string]string{"session": i.Session, "approval_id": i.Approval} {
		if len(v) > maxName || !header.IsASCII(v) {
			return call.InvalidField(invalid, name, "it may have at most 256 bytes of printable ASCII")
		}
	}
	switch {
	case i.Wait < 0 || i.Wait > maxWait:
		return call.InvalidField(invalid, "wait", "it must be 0 to 3600 seconds")
	case string(i.Arguments) == "null":
		i.Arguments = nil
	case len(i.Arguments) > maxArguments:
		return call.InvalidField(invalid, "arguments", "it may have at most 1 MiB")
	}
	text, err := invocation.Arguments(i.Arguments, "arguments", invalid)
	var refused *call.Refusal
	if errors.As(err, &refused) {
		refused.Metadata = map[string]string{"field": "arguments"}
	}
	i.Arguments = text
	return err
}

// request returns the equivalent request for the JSON API.
func (i *callAs) request(ctx context.Context, outer http.Header) (*http.Request, error) {
	names, err := json.Marshal(map[string]string{"tool_name": i.Tool, "session_id": i.Session})
	if err != nil {
		return nil, err
	}
	body := append(names[:len(names)-1], `,"args":`...)
	body = append(append(body, i.Arguments...), '}')
	r, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"/v1/capabilities/"+url.PathEscape(i.Capability)+"/invoke", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	for _, f := range header.With(header.ToPlayground) {
		if v := outer[header.Key(f.Name)]; len(v) > 0 {
			r.Header[header.Key(f.Name)] = v
		}
	}
	for name, v := range map[string]string{"X-Session-Id": i.Session, "X-Approval-Id": i.Approval} {
		if v != "" {
			r.Header.Set(name, v)
		}
	}
	if i.Wait > 0 {
		r.Header.Set("Prefer", "wait="+strconv.Itoa(i.Wait))
	}
	return r, nil
}

// hostOf returns the host of a client address, for the logs.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	return host
}
