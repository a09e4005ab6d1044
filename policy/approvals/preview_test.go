package approvals_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/capgate/capgate/policy/approvals"
)

func preview(t testing.TB, args string) string {
	t.Helper()
	return ask(t, newKeeper(t, &memory{}, approvals.Options{}), request(args)).Preview
}

func TestPreview(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		``:                         `{}`,
		` `:                        `{}`,
		`null`:                     `null`,
		`[]`:                       `[]`,
		`[true,null,1e2,"a","b"]`:  "[\n  true,\n  null,\n  1e2,\n  \"a\",\n  \"b\"\n]",
		`{"b":{},"a":[{"c":"d"}]}`: "{\n  \"a\": [\n    {\n      \"c\": \"d\"\n    }\n  ],\n  \"b\": {}\n}",
		`"a\u202eb\u200b\u0007\n\"\\\u007f\ud83d\ude00\ud83d\udc69\u200d"`: `"a\u202eb\u200b` +
			`\u0007\n\"\\\u007f😀👩\u200d"`,
		`{"password":null,"max_tokens":true}`: "{\n  \"max_tokens\": true,\n  " +
			"\"password\": null\n}",
		`{"author":"ann","keyboard":"qwerty","path":"a/b","key":"k"}`: "{\n  \"author\": \"ann\",\n  \"key\": " +
			"\"k\",\n  \"keyboard\": \"qwerty\",\n  \"path\": \"a/b\"\n}",
	} {
		if got := preview(t, args); got != want {
			t.Errorf("%s:\n%s\nand not\n%s", args, got, want)
		}
	}
}

func TestAPreviewHidesSecrets(t *testing.T) {
	t.Parallel()
	const hidden = "hunter2hunter2"
	for _, args := range []string{
		`{"password":"%s"}`, `{"PassWord":"%s"}`, `{"user_pass-word":"%s"}`, `{"p a s s w d":"%s"}`, `{"apiKey":"%s"}`,
		`{"API.KEY":"%s"}`, `{"x-api-key":"%s"}`,
		`{"clientSecret":{"a":["%s"]}}`, `{"credentials":["%s"]}`, `{"a":[{"b":{"access_key_id":"%s"}}]}`,
		`{"ｐａｓｓｗｏｒｄ":"%s"}`, `{"to\u212aen":"%s"}`,
		`{"session\u200bid":"%s"}`, `{"set-cookie":"%s"}`, `{"private-key":"%s"}`, `{"auth":"%s"}`,
		`{"private_key\u0300":"%s"}`, `{"pásswörd":"%s"}`, `{"otp":"%s"}`,
		`{"name":"Authorization","value":"%s"}`, `{"headers":[{"k":"X-Api-Key","v":["%s"]}]}`, `["--password","%s"]`,
		`["curl","--token=%s"]`, `["--api-key %s"]`,
		`["DB_PWD","%s"]`, `["userPwd","%s"]`, `["mypwd","%s"]`, `["--pwd","%s"]`, `{"name":"jwt","value":"%s"}`,
		`["pwdHash","%s"]`, `["x-jwt-assertion","%s"]`,
		`"Bearer %s"`, `"authorization: Basic %s"`, `"x\nCookie: a=b; c=%s\n"`, `"sk-%s"`, `"sk_live_%s"`,
		`"see ghp_%s."`, `"xoxb-%s"`,
		`"-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----"`, `"-----BEGIN RSA PRIVATE KEY-----\n%s"`,
		`"a eyJhbGciOiJIUzI1NiJ9.%s.x"`,
		`"postgres://ann:%s@db/x"`, `"password=%s&x=1"`, `"my password is %s"`, `"PASSWORD: '%s'"`, `"api_key=\"%s\""`,
		`"{\"password\":\"%s\"}"`, `"{\"credentials\":{\"a\":\"%s\"}}"`, `"[\"{\\\"secret\\\":[\\\"%s\\\"]}\"]"`,
		`{"sk-%s":1}`, `"x {\"password\": \"%s\""`,
		`"pa\u017f\u017fword=%s"`, `"my to\u212aEN is %s"`, `"signing-key: '%s'"`, `"ENCRYPTION KEY=%s"`,
		`"--connectionString %s"`, `"xoxp-%s"`, `"github_pat-%s"`, `"hf_%s"`, `"DIGEST %s"`,
	} {
		args = strings.ReplaceAll(args, "%s", hidden)
		if got := preview(t, args); strings.Contains(got, hidden) || !strings.Contains(got, "[masked: ") {
			t.Errorf("%s:\n%s", args, got)
		}
	}
}

// TestAPreviewShowsWhatIsBesideAnID: an id that contains the name of a secret by chance masks nothing.
func TestAPreviewShowsWhatIsBesideAnID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"ZXAPWDTJ4U76AAIVO65BYPVV62", "zxapwdtj4u76", "4JWT7AB2", "PWDAB2X"} {
		if got := preview(t, `{"action":"ls","id":"`+id+`"}`); strings.Contains(got, "[masked: ") {
			t.Errorf("%s:\n%s", id, got)
		}
	}
}

// TestAPreviewCutsNoSecret: only the beginning of a long text is searched. A secret that is cut off at the end of that
// part is not shown. Masks shorten the text before it.
func TestAPreviewCutsNoSecret(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, &memory{}, approvals.Options{MaxArgs: 1000}) // longer arguments have an excerpt
	const name, sentence, hidden = "password=", " my password is ", "hunter2hunter2"
	for shown := range len(hidden) {
		before := name + strings.Repeat("a1", 4096)[:8*512-len(name+sentence)-shown] // bytes are searched
		got := ask(t, k, request(`"`+before+sentence+hidden+`"`)).Preview
		if !strings.HasPrefix(got, `"password=[masked: over 1024 characters, by what it looks like]`+
			strings.TrimSuffix(sentence, " ")+`" …`) {
			t.Errorf("%d bytes of the secret are searched:\n%s", shown, got)
		}
	}
}

func TestAPreviewIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 20_000)
	for name, args := range map[string]string{
		"a long string": `"` + long + `"`,
		"a long name":   `{"` + long + `":1}`,
		"a long number": "1" + strings.Repeat("0", 300),
		"many values":   "[" + strings.Repeat(`"x",`, 20_000) + `"x"]`,
		"many names":    manyNames(5_000),
		"deep":          strings.Repeat("[", 99) + strings.Repeat("]", 99),
		"words":         `"` + strings.Repeat("one ", 20_000) + `"`,
		"JSON inside":   `"[` + strings.Repeat(`\"x\",`, 10_000) + `1]"`,
	} {
		got := preview(t, args)
		if len(got) > 9<<10 || !utf8.ValidString(got) {
			t.Errorf("%s: %d bytes, valid %v", name, len(got), utf8.ValidString(got))
		}
		if len(args) > 9<<10 && !strings.Contains(got, "…") {
			t.Errorf("%s: nothing says that there is more", name)
		}
	}
}

func manyNames(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"n%d":%d`, i, i)
	}
	return "{" + b.String()[1:] + "}"
}

// planter generates arguments around a secret.
type planter struct {
	random *rand.Rand
	noise  string
}

func (p *planter) pick(of ...string) string { return of[p.random.IntN(len(of))] }

// name returns a possible name of a secret, in some spelling.
func (p *planter) name() string {
	var b strings.Builder
	for _, r := range p.pick("password", "passwd", "secret", "token", "api_key", "apikey", "authorization",
		"credential", "private_key", "access_key", "cookie", "session") {
		if p.random.IntN(2) == 0 {
			r = unicode.ToUpper(r)
		}
		b.WriteRune(r)
		if p.random.IntN(8) == 0 {
			b.WriteString(p.pick("_", "-", ".", " ", "\u200b"))
		}
	}
	return p.pick("", "x_", "my-", p.noise) + b.String() + p.pick("", "s", "_2", p.noise)
}

// secret puts a marker under a name.
func (p *planter) secret(marker string) any {
	var value any = marker
	for range p.random.IntN(3) {
		if p.random.IntN(2) == 0 {
			value = []any{p.noise, value}
		} else {
			value = map[string]any{p.noise: value, "n": 1}
		}
	}
	if p.random.IntN(6) == 0 {
		return []any{"--" + p.pick("password", "api-key", "token"), value}
	}
	return map[string]any{p.name(): value}
}

func (p *planter) around(value any) any {
	for range p.random.IntN(6) {
		switch p.random.IntN(4) {
		case 0:
			value = []any{p.noise, value, 1.5}
		case 1, 2:
			value = map[string]any{p.noise: p.noise, "value" + p.noise: value}
		}
	}
	return value
}

// FuzzPreview: no preview has the value under a secret's name, whatever surrounds it, and a preview is always short,
// valid and printable.
func FuzzPreview(f *testing.F) {
	f.Add(uint64(1), "")
	f.Add(uint64(2), "a\"b\\\n: =")
	f.Add(uint64(3), "-----BEGIN {[")
	f.Add(uint64(53), "\u0300\xd3ڕ\x7f\xff00\xcchhڕX-\x10\xa000000") // an accent on a name's last letter
	k := newKeeper(f, &memory{}, approvals.Options{})
	f.Fuzz(func(t *testing.T, seed uint64, noise string) {
		p := &planter{rand.New(rand.NewPCG(seed, 7)), strings.ToValidUTF8(noise, "?")}
		marker := fmt.Sprintf("MARK%016xER", p.random.Uint64())
		args, err := json.Marshal(p.around(p.secret(marker)))
		if err != nil {
			t.Skip()
		}
		a, _, refusal := k.Create(t.Context(), request(string(args)))
		switch {
		case refusal == nil:
		case refusal.Reason == "AMBIGUOUS_ARGUMENTS":
			t.Skip() // for example, a repeated name
		default:
			t.Fatal(refusal)
		}
		if strings.Contains(a.Preview, marker) {
			t.Errorf("%s:\n%s", args, a.Preview)
		}
		if len(a.Preview) > 9<<10 || !utf8.ValidString(a.Preview) || strings.ContainsFunc(a.Preview, func(r rune) bool {
			return r != '\n' && !unicode.IsPrint(r)
		}) {
			t.Errorf("%q", a.Preview)
		}
	})
}

func BenchmarkPreview(b *testing.B) {
	k := newKeeper(b, &memory{}, approvals.Options{})
	r := request(`{"text":"` + strings.Repeat("lorem ipsum dolor ", 1000) + `","list":[` + strings.Repeat(
		`{"a":"b c d"},`, 1000) + `1]}`)
	b.ReportAllocs()
	for b.Loop() {
		ask(b, k, r)
	}
}
