package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestCallersSeeTheirOwnCalls: GET /v1/calls has the caller's calls and rejected requests with their reasons, without
// arguments, and nothing of others.
func TestCallersSeeTheirOwnCalls(t *testing.T) {
	t.Parallel()
	backends, stop, err := startReplicas()
	check.Must(t, err)
	t.Cleanup(stop)
	keys, credentials := "", map[string]string{}
	for _, name := range []string{"acme", "other", "globex"} {
		id, secret := tenant.NewCredential()
		credentials[name] = tenant.Credential(id, secret)
		tenants := map[string]string{"acme": "  - {id: acme, capabilities: ['*'], keys: [", "other": ", ",
			"globex": "]}\n  - {id: globex, capabilities: ['*'], keys: ["}
		keys += fmt.Sprintf(`%s{id: %s, hash: "%s"}`, tenants[name], id, tenant.HashOf(secret, nil))
	}
	_, public, _ := serve(t, nil, "--config", writeConfig(t, "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\n"+
		"overload: {max_delay: 10s}\npolicies: {}\ntenants:\n"+keys+"]}\n"+
		"fleets: [{capability: weather, policy: allow, backends: ['"+strings.Join(backends, "', '")+"']}]\n"))
	const weather = "/v1/capabilities/weather/tools/get_current_weather"
	send := func(key, path, body string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+public+path,
			strings.NewReader(body))
		check.Must(t, err)
		req.Header.Set("X-Api-Key", credentials[key])
		resp, err := http.DefaultTransport.RoundTrip(req)
		check.Must(t, err)
		defer resp.Body.Close()
		return resp.StatusCode
	}
	// calls returns those of a key, the last one first, and the whole list.
	calls := func(key string) (all []string, text string) {
		_, text = request(t.Context(), t, http.MethodGet, "http://"+public+"/v1/calls", credentials[key])
		var list struct {
			Calls []struct{ Capability, Tool, Reason string }
		}
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err, text)
		}
		for _, c := range list.Calls {
			all = append(all, strings.TrimSpace(c.Capability+" "+c.Tool+" "+c.Reason))
		}
		return all, text
	}
	sent := map[string]int{}
	for _, one := range []struct {
		key, path, body string
		status          int
	}{
		{"globex", weather, `{"location":"Lima"}`, 200}, {"other", weather, `{"location":"Oslo"}`, 200},
		{"acme", weather, `{"location":"canary-of-acme`, 400}, {"acme", weather, `{"location":"Berlin"}`, 200},
		{"acme", "/v1/capabilities/wether/tools/x", `{}`, 404}, {"acme", "/v1/nothing", `{}`, 404},
	} {
		if status := send(one.key, one.path, one.body); status != one.status {
			t.Errorf("%s: %d", one.path, status)
		}
		sent[one.key]++
		check.Until(t, "the call to be recorded, before the next one", func() (bool, string) {
			all, text := calls(one.key)
			return len(all) == sent[one.key], text
		})
	}
	for key, want := range map[string]string{
		"acme": "NO_SUCH_PATH, x CAPABILITY_UNKNOWN, weather get_current_weather, " +
			"weather get_current_weather INVALID_BODY",
		"other": "weather get_current_weather", "globex": "weather get_current_weather",
	} {
		all, text := calls(key)
		if strings.Join(all, ", ") != want || strings.Contains(text, "canary") || strings.Contains(text, backends[0]) {
			t.Errorf("the calls of %s: %s", key, text)
		}
	}
}
