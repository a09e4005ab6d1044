package cors_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/frontdoor/cors"
)

func ask(t *testing.T, cfg cors.Config, method string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	h := cors.Handler(cfg, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodOptions {
			w.Header().Set("Allow", "POST, OPTIONS")
		}
		if cors.Allowed(r) {
			w.Header().Set("X-Allowed", "yes")
		}
		w.WriteHeader(http.StatusTeapot)
	}))
	r := httptest.NewRequestWithContext(t.Context(), method, "http://gateway.test/v1/capabilities", nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

var someOrigins = cors.Config{Origins: []string{"https://app.test", "https://*.example.com",
	"http://*.dev.test:8080"}, Headers: []string{"X-More"}, Expose: []string{"X-Seen"},
	Credentials: true}

func TestWhichOriginsMayCall(t *testing.T) {
	t.Parallel()
	for origin, want := range map[string]bool{
		"https://app.test": true, "https://a.example.com": true, "https://a.b.example.com": true,
		"http://x.dev.test:8080": true,
		"http://app.test":        false, "https://app.test:8443": false, "https://app.test.evil.test": false,
		"https://example.com": false, "https://.example.com": false,
		"https://evilexample.com": false, "https://evil.test/.example.com": false,
		"https://evil.test:1.example.com": false, "https://u@x.example.com": false,
		"http://x.dev.test": false, "null": false, "": false, "https://APP.test": false, "app.test": false,
		"https://": false,
	} {
		w := ask(t, someOrigins, "GET", "Origin", origin)
		got := w.Header().Get("Access-Control-Allow-Origin")
		if (got == origin && got != "") != want || !want && got != "" ||
			(w.Header().Get("X-Allowed") == "yes") != want || w.Header().Get("Vary") != "Origin" {
			t.Errorf("%q: %d %v", origin, w.Code, w.Header())
		}
		if want && (w.Header().Get("Access-Control-Allow-Credentials") != "true" ||
			!strings.HasSuffix(w.Header().Get("Access-Control-Expose-Headers"), ", X-Seen")) {
			t.Errorf("%q: %v", origin, w.Header())
		}
	}
	if w := ask(t, cors.Config{Origins: []string{"*"}}, "GET", "Origin",
		"https://any.test"); w.Header().Get("Access-Control-Allow-Origin") != "*" ||
		w.Header().Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("%v", w.Header())
	}
	if w := ask(t, cors.Config{Origins: []string{"*"}, Credentials: true}, "GET", "Origin",
		"https://any.test"); w.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("every page may call with credentials: %v", w.Header())
	}
}

// A preflight has no credentials, so it does not reach the gateway itself.
func TestPreflight(t *testing.T) {
	t.Parallel()
	pre := []string{"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers",
		"authorization,x-more", "Origin"}
	w := ask(t, someOrigins, "OPTIONS", append(pre, "https://app.test")...)
	if h := w.Header(); w.Code != 204 || h.Get("Access-Control-Allow-Origin") != "https://app.test" ||
		!strings.Contains(h.Get("Access-Control-Allow-Methods"), "POST") ||
		!strings.Contains(h.Get("Access-Control-Allow-Headers"), "Authorization") ||
		!strings.HasSuffix(h.Get("Access-Control-Allow-Headers"), "X-More") ||
		h.Get("Access-Control-Max-Age") != "600" ||
		strings.Join(h.Values("Vary"),
			", ") != "Origin, Access-Control-Request-Method, Access-Control-Request-Headers" {
		t.Errorf("%d %v", w.Code, h)
	}
	if w := ask(t, someOrigins, "OPTIONS", append(pre, "https://evil.test")...); w.Code != 204 ||
		w.Header().Get("Access-Control-Allow-Origin") != "" || w.Header().Get("Access-Control-Allow-Methods") != "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if w := ask(t, someOrigins, "OPTIONS"); w.Code != http.StatusTeapot || w.Header().Get("Allow") == "" {
		t.Errorf("no preflight: %d %v", w.Code, w.Header())
	}
	if w := ask(t, cors.Config{}, "OPTIONS", append(pre, "https://app.test")...); w.Code != http.StatusTeapot ||
		w.Header().Get("Access-Control-Allow-Origin") != "" || w.Header().Get("Vary") != "" {
		t.Errorf("off: %d %v", w.Code, w.Header())
	}
}

// A form of another site needs no preflight.
func TestOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	for _, cfg := range []cors.Config{{}, someOrigins} {
		for _, tt := range []struct {
			method string
			header []string
			want   int
		}{
			{"POST", []string{"Origin", "https://evil.test"}, 403},
			{"POST", []string{"Origin", "null"}, 403},
			{"POST", []string{"Sec-Fetch-Site", "cross-site"}, 403},
			{"DELETE", []string{"Sec-Fetch-Site", "same-site", "Origin", "https://evil.test"}, 403},
			{"POST", []string{"Origin", "http://gateway.test"}, 418},
			{"POST", []string{"Sec-Fetch-Site", "same-origin", "Origin", "https://behind.proxy.test"}, 418},
			{"POST", nil, 418},
			{"GET", []string{"Sec-Fetch-Site", "cross-site"}, 418},
		} {
			w := ask(t, cfg, tt.method, tt.header...)
			if w.Code != tt.want || tt.want == 403 && w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s %q: %d %s", tt.method, tt.header, w.Code, w.Body)
			}
		}
	}
	if w := ask(t, someOrigins, "POST", "Origin", "https://app.test", "Sec-Fetch-Site", "cross-site"); w.Code != 418 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
