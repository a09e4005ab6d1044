package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// at returns a connection to the admin API of a replica.
func at(admin string) (*grpc.ClientConn, error) {
	return clienttest.NewConn("passthrough:///"+admin, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// hooks receives the notices of denied approvals. It does not respond to those that are held, so the gateway soon tries
// again: after so many rejections it could wait for minutes.
type hooks struct {
	mu       sync.Mutex
	held     map[string]*heldNotice // by text in a notice
	accepted []string               // bodies
}

// heldNotice is a notice without a response.
type heldNotice struct {
	allowed chan struct{} // closed when it may be accepted
	came    bool          // it was sent
}

func (h *hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	select {
	case <-h.receive(string(body)):
	case <-r.Context().Done():
	}
	if r.Context().Err() != nil { // the gateway does not wait any longer
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.accepted = append(h.accepted, string(body))
}

// receive returns a channel that is closed when a notice may be accepted.
func (h *hooks) receive(body string) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	for text, held := range h.held {
		if strings.Contains(body, text) {
			held.came = true
			return held.allowed
		}
	}
	at := make(chan struct{})
	close(at)
	return at
}

// hold leaves notices with a text without a response from now on, and allow accepts them.
func (h *hooks) hold(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held[text] = &heldNotice{allowed: make(chan struct{})}
}

func (h *hooks) allow(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.held[text].allowed)
}

// state returns whether a notice with a text that is held was sent, and the number of accepted ones.
func (h *hooks) state(text string) (came bool, accepted int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, body := range h.accepted {
		if strings.Contains(body, text) {
			accepted++
		}
	}
	return h.held[text].came, accepted
}

// deniedKept: an approval is denied while the receiver of its notice does not respond. After the change of version, the
// history of approvals has it, and the notice is delivered.
func deniedKept(u *upgrade, w writer) (func(context.Context, string) error, error) {
	client, closing := u.connectGRPC()
	defer closing()
	id, err := u.ask(w.t.Context(), client, `{"denied":"`+w.tag+`"}`)
	if err != nil {
		return nil, err
	}
	u.hooks.hold(id)
	conn, err := at(w.admin)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	_, err = capgatepb.NewApprovalsClient(conn).Deny(w.t.Context(), &capgatepb.DenyRequest{ApprovalId: id})
	if err != nil {
		return nil, err
	}
	check.Until(w.t, "a notice that is held", func() (bool, string) {
		came, _ := u.hooks.state(id)
		return came, ""
	})
	return func(ctx context.Context, admin string) error {
		conn, err := at(admin)
		if err != nil {
			return err
		}
		defer conn.Close()
		past, err := capgatepb.NewApprovalsClient(conn).ListPastApprovals(ctx,
			&capgatepb.ListPastApprovalsRequest{Query: id})
		older := status.Code(err) == codes.Unimplemented // a version before the history of approvals
		if !older && (err != nil || len(past.GetApprovals()) != 1 || past.GetApprovals()[0].GetId() != id) {
			return fmt.Errorf("the history of approvals has %v: %w", past.GetApprovals(), err)
		}
		u.hooks.allow(id)
		check.Until(w.t, "the notice", func() (bool, string) {
			_, accepted := u.hooks.state(id)
			return accepted > 0, ""
		})
		return nil
	}, nil
}

// registeredKept: a backend has registered itself. Calls reach it after the change of version, until it is withdrawn.
func registeredKept(u *upgrade, w writer) (func(context.Context, string) error, error) {
	conn, err := at(w.admin)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	capability := "registered-" + w.tag
	registered, err := capgatepb.NewRegistryClient(conn).RegisterBackend(w.t.Context(),
		&capgatepb.RegisterBackendRequest{Capability: capability, Addr: u.spare, Ttl: durationpb.New(time.Hour)})
	if err != nil {
		return nil, err
	}
	reached := func(ctx context.Context) error {
		_, _, err := u.invoke(ctx, u.key, &docpb.InvokeRequest{CapabilityId: capability, ToolName: gatewaytest.Echo,
			ArgsJson: []byte(`{}`)})
		return err
	}
	check.Succeeds(w.t, "a call of the registered backend", func() error { return reached(w.t.Context()) })
	return func(ctx context.Context, admin string) error {
		if err := reached(ctx); err != nil {
			return err
		}
		conn, err := at(admin)
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = capgatepb.NewRegistryClient(conn).WithdrawBackend(ctx, &capgatepb.WithdrawBackendRequest{
			Capability: capability, Addr: u.spare, Lease: registered.GetLease()})
		return err
	}, nil
}

// toolKept: a discovered tool has changed since its version was accepted. After the change of version, it still needs
// approval until an operator accepts it.
func toolKept(u *upgrade, w writer) (func(context.Context, string) error, error) {
	call := func(ctx context.Context) error {
		_, _, err := u.invoke(ctx, u.key, &docpb.InvokeRequest{CapabilityId: "listed", ToolName: gatewaytest.Echo,
			ArgsJson: []byte(`{}`)})
		return err
	}
	check.Succeeds(w.t, "a call of the tool whose version is accepted", func() error { return call(w.t.Context()) })
	u.lists("since " + w.tag)
	w.run("catalog", "discover", "listed")
	asks := func(ctx context.Context) error {
		if err := call(ctx); clienttest.Reason(err) != "APPROVAL_REQUIRED" {
			return fmt.Errorf("a call of a changed tool: %w", unexpected(err))
		}
		return nil
	}
	check.Succeeds(w.t, "a call of the changed tool", func() error { return asks(w.t.Context()) })
	return func(ctx context.Context, admin string) error {
		if err := asks(ctx); err != nil {
			return err
		}
		conn, err := at(admin)
		if err != nil {
			return err
		}
		defer conn.Close()
		catalog := capgatepb.NewCatalogAdminClient(conn)
		shown, err := catalog.ShowCatalog(ctx, &capgatepb.ShowCatalogRequest{Capability: "listed"})
		if err != nil || len(shown.GetCapability().GetTools()) != 1 {
			return fmt.Errorf("the catalog has %v: %w", shown, err)
		}
		_, err = catalog.AcceptTool(ctx, &capgatepb.AcceptToolRequest{Capability: "listed", Tool: gatewaytest.Echo,
			Hash: shown.GetCapability().GetTools()[0].GetHash()})
		if err == nil {
			check.Succeeds(w.t, "a call of the accepted tool", func() error { return call(ctx) })
		}
		return err
	}, nil
}

// lists gives the discovered tool a description.
func (u *upgrade) lists(description string) {
	tools, _ := json.Marshal([]map[string]any{{"name": gatewaytest.Echo, "description": description,
		"input_schema": map[string]any{"type": "object"}, "recommended_policy": "allow"}})
	u.capabilities[1].SetLists(func() ([]byte, string, error) { return tools, "", nil })
}

// historyKept: the statistics of a tenant's calls are available after the change of version.
func historyKept(u *upgrade, w writer) (func(context.Context, string) error, error) {
	const calls = 5
	tenant := "counted-" + w.tag
	w.run("tenants", "create", tenant, "--capabilities", "*")
	key := w.run("keys", "create", tenant)
	one := func() error {
		_, _, err := u.invoke(w.t.Context(), key, echo(`{}`))
		return err
	}
	check.Succeeds(w.t, "a call with the new key", one)
	for range calls - 1 {
		if err := one(); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, admin string) error {
		conn, err := at(admin)
		if err != nil {
			return err
		}
		defer conn.Close()
		past, err := capgatepb.NewHistoryClient(conn).GetTenantHistory(ctx,
			&capgatepb.GetTenantHistoryRequest{TenantId: tenant})
		if err == nil && past.GetSums().GetAnswered() != calls {
			err = fmt.Errorf("the history has %v of %d calls", past.GetSums(), calls)
		}
		return err
	}, nil
}

// sessionKept: of two signed-in people, one stays signed in after the change of version. The session of the other one
// was revoked, and stays revoked.
func sessionKept(u *upgrade, w writer) (func(context.Context, string) error, error) {
	before := u.sessions(w)
	revoked, err := u.signIn(w.t)
	if err != nil {
		return nil, err
	}
	for id := range u.sessions(w) {
		if !before[id] {
			w.run("sessions", "revoke", id)
		}
	}
	check.Until(w.t, "the end of a revoked session", func() (bool, string) {
		status, _ := u.inbox(w.t.Context(), revoked)
		return status == http.StatusUnauthorized, http.StatusText(status)
	})
	kept, err := u.signIn(w.t)
	return func(ctx context.Context, _ string) error {
		for _, s := range []struct {
			cookie *http.Cookie
			want   int
		}{{kept, http.StatusOK}, {revoked, http.StatusUnauthorized}} {
			if status, err := u.inbox(ctx, s.cookie); status != s.want || err != nil {
				return fmt.Errorf("the inbox answers %d, want %d: %w", status, s.want, err)
			}
		}
		return nil
	}, err
}

// sessions returns the ids of the sessions that a replica lists.
func (u *upgrade) sessions(w writer) map[string]bool {
	w.t.Helper()
	var list struct{ Sessions []struct{ ID string } }
	check.Must(w.t, json.Unmarshal([]byte(w.run("sessions", "list", "-o", "json")), &list))
	all := map[string]bool{}
	for _, s := range list.Sessions {
		all[s.ID] = true
	}
	return all
}

// signIn signs in at the inbox with the key of an approver, and returns the cookie of the session.
func (u *upgrade) signIn(t *testing.T) (*http.Cookie, error) {
	t.Helper()
	client := http.Client{Transport: clienttest.HTTP.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.PostForm("http://"+u.host(9)+publicPort+"/inbox/signin/key", url.Values{"key": {u.approver}})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	for _, c := range resp.Cookies() {
		if c.Value != "" && resp.StatusCode == http.StatusSeeOther {
			return c, nil
		}
	}
	return nil, errors.New(resp.Status)
}

// inbox returns the status of a request with the cookie of a session.
func (u *upgrade) inbox(ctx context.Context, session *http.Cookie) (int, error) {
	address := "http://" + u.host(9) + publicPort + "/inbox/v1/approvals"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return 0, err
	}
	req.AddCookie(session)
	resp, err := clienttest.HTTP.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}
