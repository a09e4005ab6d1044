package gateway_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
)

// behindSchema returns a gateway for acme and globex whose tool echo has the given schema.
func behindSchema(t *testing.T, text string) (f *front, acme, globex context.Context) {
	t.Helper()
	schema, err := toolschema.Compile([]byte(text))
	check.Must(t, err)
	tools := catalog.New(catalog.Options{})
	tools.Replace(map[string]catalog.Declaration{"caps": {Validate: true, Policy: call.Allow,
		Manifest: &manifest.Manifest{Tools: []manifest.Tool{
			{Name: gatewaytest.Echo, Schema: schema, Recommends: true, Recommended: call.Allow},
		}}}})
	ring, keys := newKeyring(), tenant.NewKeys(nil)
	keys.Replace(ring.keys, settings(t, map[string][]string{"acme": {"*"}, "globex": {"*"}}), nil)
	f = &front{capability: gatewaytest.NewCapability("b1")}
	f.backend = f.capability.Serve(t, call.Doc)
	f.gateway = gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{f.backend.Addr}}},
		Policy: policy.Options{Source: tools}, Authenticator: keys,
	})
	f.conn = f.gateway.Conn(t)
	f.client = gatewaytest.NewClient(f.conn, call.Doc)
	return f, to(bearer(t.Context(), ring.credentials["acme"]), "caps"),
		to(bearer(t.Context(), ring.credentials["globex"]), "caps")
}

// doubling returns a schema in which checking each level of the arguments costs twice as much as the level
// above.
const doubling = `{"$ref":"#/$defs/a","$defs":{"a":{"type":"object","allOf":[{"properties":{"x":{"$ref":"#/$defs/a"}}},{"properties":{"x":{"$ref":"#/$defs/a"}}}]}}}`

func nested(levels int) string {
	return strings.Repeat(`{"x":`, levels) + "{}" + strings.Repeat("}", levels)
}

// TestCostlyChecksDoNotDelayOtherTenants: however many costly calls a tenant makes, each of them ends, and calls of
// another tenant are served meanwhile.
func TestCostlyChecksDoNotDelayOtherTenants(t *testing.T) {
	t.Parallel()
	f, acme, globex := behindSchema(t, doubling)
	acme, cancel := context.WithTimeout(acme, check.Patience)
	defer cancel()
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			_, err := f.client.Invoke(acme, request(gatewaytest.Echo, nested(90)))
			wants(t, err, codes.InvalidArgument, "ARGUMENTS_TOO_COSTLY")
		})
	}
	for range 20 {
		if _, err := f.client.Invoke(globex, request(gatewaytest.Echo, nested(5))); err != nil {
			t.Errorf("another tenant's call: %v", err)
		}
	}
	all.Wait()
	if n := len(f.capability.Seen()); n != 20 {
		t.Errorf("%d calls at the backend", n)
	}
}

// Calls of one tenant beyond the maximum that may wait are rejected; calls of others are not.
func TestTooManyChecks(t *testing.T) {
	t.Parallel()
	f, acme, globex := behindSchema(t, doubling)
	acme, cancel := context.WithCancel(acme)
	refused := make(chan struct{}, 1000)
	var all sync.WaitGroup
	for range 400 {
		all.Go(func() {
			if _, err := f.client.Invoke(acme,
				request(gatewaytest.Echo, nested(90))); errorInfo(err).GetReason() == "TOO_MANY_CHECKS" {
				refused <- struct{}{}
			}
		})
	}
	check.Received(t, refused, "the refusal")
	if _, err := f.client.Invoke(globex, request(gatewaytest.Echo, nested(5))); err != nil {
		t.Errorf("another tenant's call: %v", err)
	}
	cancel() // and the waiting checks end with their calls
	check.Ended(t, &all, "the end of the calls that wait")
	if _, err := f.client.Invoke(globex, request(gatewaytest.Echo, nested(5))); err != nil {
		t.Error(err)
	}
}

// TestTooManyMisspeltTools: tool names are compared one call at a time, like arguments are checked. A tenant's
// calls beyond the maximum that may wait are rejected.
func TestTooManyMisspeltTools(t *testing.T) {
	t.Parallel()
	schema, err := toolschema.Compile([]byte(`{"type":"object"}`))
	check.Must(t, err)
	all := make([]manifest.Tool, 1000)
	for i := range all {
		all[i] = manifest.Tool{Name: fmt.Sprintf("%0128d", i), Schema: schema, Recommends: true,
			Recommended: call.Allow}
	}
	tools := catalog.New(catalog.Options{})
	tools.Replace(map[string]catalog.Declaration{"caps": {Manifest: &manifest.Manifest{Tools: all}}})
	f := behindRules(t, nil, tools)
	ctx, cancel := context.WithCancel(to(t.Context(), "caps"))
	defer cancel()
	refused := make(chan struct{}, 400)
	var calls sync.WaitGroup
	for range 400 {
		calls.Go(func() {
			if _, err := f.client.Invoke(ctx,
				request(strings.Repeat("x", 128), `{}`)); errorInfo(err).GetReason() == "TOO_MANY_CHECKS" {
				refused <- struct{}{}
			}
		})
	}
	check.Received(t, refused, "the refusal")
	cancel()
	check.Ended(t, &calls, "the end of the calls that wait")
}

// TestArgumentsThatReadersReadDifferently: arguments that decoders may read differently are rejected, at little
// cost and with a reason.
func TestArgumentsThatReadersReadDifferently(t *testing.T) {
	t.Parallel()
	f, acme, _ := behindSchema(t,
		`{"type":"object","properties":{"command":{"enum":["ls"]},"n":{"type":"number","multipleOf":3}}}`)
	for args, reason := range map[string]string{
		`{"command":"ls","n":3}`:           "",
		`{"n":1e999999}`:                   "AMBIGUOUS_ARGUMENTS",
		`{"n":` + strings.Repeat("9", 1e6): "AMBIGUOUS_ARGUMENTS",
		`{"n":1e-999999}`:                  "AMBIGUOUS_ARGUMENTS",
		`{"n":NaN}`:                        "AMBIGUOUS_ARGUMENTS",
		`{"n":-Infinity}`:                  "AMBIGUOUS_ARGUMENTS",
		"\ufeff{}":                         "AMBIGUOUS_ARGUMENTS",
		utf(`{"command":"rm"}`, 2, false):  "AMBIGUOUS_ARGUMENTS",
		`{"command":"ls"}{"command":"rm"}`: "AMBIGUOUS_ARGUMENTS",
		`{"Command":"rm"}`:                 "AMBIGUOUS_ARGUMENTS",
		`{"command":"ls","COMMAND":"rm"}`:  "AMBIGUOUS_ARGUMENTS",
		`{"a":{"b":1,"b":2}}`:              "AMBIGUOUS_ARGUMENTS",
		`{"x":"\ud800"}`:                   "AMBIGUOUS_ARGUMENTS",
		`{"x\u0000":1}`:                    "AMBIGUOUS_ARGUMENTS",
		`{"command":"rm"}`:                 "ARGUMENTS_INVALID",
		`{"command":`:                      "ARGUMENTS_INVALID",
		`{"x":[` + strings.Repeat("0,", 200_000) + `0]}`: "ARGUMENTS_TOO_COSTLY",
	} {
		_, err := f.client.Invoke(acme, request(gatewaytest.Echo, args))
		if got := errorInfo(err).GetReason(); got != reason || (err == nil) != (reason == "") {
			t.Errorf("%.60q: %v, want %s", args, err, reason)
		}
	}
	if n := len(f.capability.Seen()); n != 1 {
		t.Errorf("%d calls at the backend", n)
	}
}

// TestTenViolations: an error lists at most ten violations.
func TestTenViolations(t *testing.T) {
	t.Parallel()
	f, acme, _ := behindSchema(t, `{"properties":{"list":{"items":{"type":"string"}}}}`)
	_, err := f.client.Invoke(acme, request(gatewaytest.Echo, `{"list":[`+strings.Repeat("1,", 100_000)+`1]}`))
	info := wants(t, err, codes.InvalidArgument, "ARGUMENTS_INVALID")
	for i := range 12 {
		if strings.Contains(err.Error(), fmt.Sprintf("/list/%d\"", i)) != (i < 10) {
			t.Errorf("element %d: %v", i, err)
		}
	}
	if info.GetMetadata()["pointer"] != "/list/0" {
		t.Error(info)
	}
}
