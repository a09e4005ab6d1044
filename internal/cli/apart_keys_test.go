package cli

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// party is a tenant of a test; each deployment has its own.
type party struct {
	id       string
	settings string // JSON
	grants   string // permissions of its first key, in JSON
	key      string // in the configuration; if empty, the tenant and its first key are created in Redis
	entry    string // of that key in the configuration
}

// newParty creates a tenant with a limit of echo at caps. If filed is set, it is in the configuration.
func newParty(t *testing.T, id string, filed bool, capabilities, grants string, calls int) *party {
	t.Helper()
	p := &party{id: id, grants: grants, settings: fmt.Sprintf(`{"id": %q, "capabilities": [%s], "limits": {"each": [`+
		`{"per": "user", "capability": "caps", "per_month": %d}, `+
		`{"capability": "caps", "tool": "echo", "per_month": %[3]d}]}}`, id, capabilities, calls)}
	if filed {
		p.key, p.entry = makeKey(t)
	}
	return p
}

// line returns the tenant's entry in the configuration, if any.
func (p *party) line() string {
	if p.key == "" {
		return ""
	}
	return "  - " + strings.TrimSuffix(p.settings, "}") + `, "keys": [` + strings.TrimSuffix(p.entry, "}") + ", " +
		strings.TrimPrefix(p.grants, "{") + "]}\n"
}

// join creates the tenant if the configuration lacks it, and returns its first key.
func (p *party) join(t *testing.T, admin string) (key string) {
	t.Helper()
	if p.key != "" {
		return p.key
	}
	if code, text := post(t, "http://"+admin+"/v1/tenants", p.settings); code != http.StatusOK {
		t.Fatal(code, text)
	}
	code, text := post(t, "http://"+admin+"/v1/tenants/"+p.id+"/keys", p.grants)
	if key = aCredential.FindString(text); code != http.StatusOK || key == "" {
		t.Fatal(code, key)
	}
	return key
}

// at returns the tenant at a port of a gateway. No operation revokes its first key.
func (p *party) at(t *testing.T, key string, w gatewayPorts, addr string) *stranger {
	t.Helper()
	s := newStranger(t, p.id, key, addr)
	s.admin = w.admin
	s.late() // from now on
	kind := "own"
	if p.key != "" {
		kind = "key"
	}
	s.pools.add(kind, key[3:19])
	return s
}

var (
	aCredential = regexp.MustCompile(`cg_[a-z2-7]{16}_[a-z2-7]{32}`)
	ofLength    = regexp.MustCompile(`(Content-Length|Etag):\[[^\]]*\] ?`)
)

const listKeys = "capgate.v1.Tenants.ListKeys"

// keyList is a page of keys, sorted by their ids, which each deployment draws at random.
type keyList struct {
	Keys []json.RawMessage `json:"keys"`
	Next string            `json:"next_page_token"`
}

// readKeyList reads the page in a response and returns its position; a response without a page is an error.
func readKeyList(t *testing.T, response string) (list keyList, from, to int) {
	t.Helper()
	from = strings.Index(response, "{")
	if !strings.HasPrefix(response, "200 ") && from != 0 {
		return list, 0, 0
	}
	answer := json.NewDecoder(strings.NewReader(response[from:]))
	check.Must(t, answer.Decode(&list))
	return list, from, from + int(answer.InputOffset())
}

// listed returns a response to ListKeys in a form that is equal for all deployments: with all keys, as ask
// returns them, in place of a page. The page must be the right one of these keys, and with a query it begins them.
func (s *stranger) listed(request, response string, ask func(request string) string) string {
	s.t.Helper()
	page, from, to := readKeyList(s.t, response)
	s.pools.add("place", page.Next)
	if to == 0 || !s.alone {
		return response
	}
	fields := map[string]any{}
	check.Must(s.t, json.Unmarshal([]byte(request), &fields))
	size, _ := fields["page_size"].(float64)
	token, _ := fields["page_token"].(string)
	query, _ := fields["query"].(string)
	after, err := base64.RawURLEncoding.DecodeString(token)
	check.Must(s.t, err)
	read := func(size int, token string) (list keyList) {
		fields["page_size"], fields["page_token"] = size, token
		text, err := json.Marshal(fields)
		check.Must(s.t, err)
		list, _, end := readKeyList(s.t, ask(string(text)))
		if end == 0 {
			s.t.Fatalf("no page of %d keys after %q", size, token)
		}
		return list
	}
	all := read(1000, "")
	if all.Next != "" || len(all.Keys) == 0 && query == "" {
		s.t.Fatalf("not all keys are listed: %d keys, and then %q", len(all.Keys), all.Next)
	}
	want := all.page(int(cmp.Or(size, 100)), string(after))
	if query != "" { // a page may have fewer than match, or none: all pages have them
		want = all.page(1000, string(after))
		for pages := 0; page.Next != ""; pages++ {
			next := read(int(size), page.Next)
			page.Keys, page.Next = append(page.Keys, next.Keys...), next.Next
			if pages == 1000 {
				s.t.Fatal("the list has no end")
			}
		}
	}
	if !slices.EqualFunc(page.Keys, want.Keys, slices.Equal) || page.Next != want.Next {
		s.t.Errorf("%d keys after %q: %q, and then %q; of all they are %q, and then %q", int(size), after, page.Keys,
			page.Next, want.Keys, want.Next)
	}
	keys := make([]string, len(all.Keys))
	for i, k := range all.Keys {
		keys[i] = s.normal(string(k))
	}
	slices.Sort(keys)
	return ofLength.ReplaceAllString(response[:from], "") + strings.Join(keys, "\n") + response[to:]
}

// page returns the entries after an id, in a list of all.
func (l *keyList) page(size int, after string) (page keyList) {
	last := ""
	for _, k := range l.Keys {
		id := drawnKey.FindSubmatch(k)[1]
		switch {
		case string(id) <= after:
			continue
		case len(page.Keys) == size:
			page.Next = base64.RawURLEncoding.EncodeToString([]byte(last))
			return page
		}
		page.Keys = append(page.Keys, k)
		last = string(id)
	}
	return page
}

// tellsTime reports whether an id is a page token of approvals, which depends on the time.
func tellsTime(id string) bool {
	text, err := base64.RawURLEncoding.DecodeString(id)
	return err == nil && strings.Contains(string(text), ":apr_")
}
