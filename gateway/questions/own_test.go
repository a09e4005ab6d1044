package questions_test

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/capgate/capgate/gateway/questions"
)

// TestOwn: no notation of a URL that a browser opens leads a user to the gateway, whichever of its addresses it names.
// Other URLs pass.
func TestOwn(t *testing.T) {
	t.Parallel()
	own := questions.NewOwn([]string{"gate.example", "*.tools.example", "192.0.2.7", "2001:db8:0::7", "tür.example",
		"*", "127.0.0.1"}, []string{"127.0.0.1:8081", "[::]:9443", "0.0.0.0:8082", "gate.example:https", "unix:/run/s"})
	const reached = "Reached.example:8080"
	var none *questions.Own
	for text, leads := range map[string]bool{
		"https://gate.example/approvals/a-1":  true,
		"http://gate.example/":                true,
		"https://gate.example:1/":             true,
		"https://GATE.Example./approvals/a-1": true,
		"https://a.tools.example/":            true,
		"https://a.b.tools.example/":          true,
		"https://xn--tr-xka.example/":         true,
		"https://reached.example/":            true,
		"https://192.0.2.7/":                  true,
		"https://[2001:db8::7]/":              true,
		"https://[::ffff:192.0.2.7]/":         true,
		"http://127.0.0.1:8081/":              true,
		"http://127.9.9.9:08081/":             true,
		"http://localhost:8082/":              true,
		"http://a.localhost:9443/":            true,
		"http://LocalHost.:8080/":             true, // the port of the request
		"http://[::1]:8081/":                  true,
		"http://0.0.0.0:8081/":                true,
		"https://127.0.0.1/":                  true, // 443
		"http://203.0.113.5:8081/":            true, // may be an address of the gateway

		"https://pay.example/1?gate.example":      false,
		"https://tools.example/":                  false,
		"https://agate.example/":                  false,
		"https://gate.example.evil.example/":      false,
		"http://127.0.0.1:3000/":                  false,
		"http://localhost:3000/":                  false,
		"http://203.0.113.5:3000/":                false,
		"https://pay.example:8081/#@gate.example": false,
	} {
		var u *url.URL
		from := questions.Source{Own: func(of *url.URL) bool { u = of; return own.Has(of, reached) }}
		params, _ := json.Marshal(map[string]string{"mode": "url", "message": "m", "url": text})
		_, err := questions.Read("elicitation/create", params, from)
		if u == nil || (err != nil) != leads {
			t.Errorf("%s: %v", text, err)
		}
		if u != nil && !none.Has(u, u.Host) {
			t.Errorf("%s is not an address of a gateway that was reached there", text)
		}
	}
	for _, text := range []string{ // a browser takes these for another host than Go does, or could
		"https://gate%2eexample/", "https://%67ate.example/", `https://gate.example\@evil.example/`,
		`https:\\gate.example/`, "https:/gate.example/", "https:gate.example", "https:///gate.example/",
		"https://gate。example/", "https://ｇate.example/", "https://gate\u00ad.example/",
		"https://evil.example@gate.example/",
		"http://2130706433:8081/", "http://0x7f000001:8081/", "http://0x7f.1:8081/", "http://0177.0.0.1:8081/",
		"http://127.1:8081/", "http://127.0.0.1.:x/", "http://[::1%25lo]:8081/", "http://gate.example:99999/",
		"https://*.example/", "https://gate..example/", "https://gate.example:0/",
	} {
		passed := false
		from := questions.Source{Own: func(u *url.URL) bool { passed = !own.Has(u, reached); return !passed }}
		params, _ := json.Marshal(map[string]string{"mode": "url", "message": "m", "url": text})
		if q, err := questions.Read("elicitation/create", params, from); err == nil || passed {
			t.Errorf("%s passes: %+v", text, q)
		}
	}
}
