package approvals

import (
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/capgate/capgate/internal/toolschema"
)

// masked stands for what an approver does not get to see.
const masked = "[masked]"

// secretWords are what names of secrets have in them, as plain writes it, and secretNames
// are whole names of some. The more they hide the less can be judged, so numbers of tokens
// are a price, and authors are not.
const (
	secretWords = "password passwd passphrase passcode pwd secret token apikey authorization credential privatekey accesskey " +
		"signingkey encryptionkey cookie session bearer jwt connectionstring"
	secretNames = "auth pass pin otp pw creds"
)

// What is said by three letters is in ids by chance. briefName is a name that has one of them as a word.
var (
	brief     = regexp.MustCompile(`(?i)pwd|jwt`)
	briefName = regexp.MustCompile(`(?:^|[^A-Za-z0-9])(?i:pwd|jwt)(?:[^A-Za-z]|[A-Z][a-z])|[a-z](?:Pwd|Jwt|PWD|JWT)(?:[^a-z]|$)|(?i:pwd|jwt)$`)
)

// masker finds secrets in arguments. Make one with newMasker.
type masker struct {
	words, names []string
	whole        []*regexp.Regexp // what looks like a secret wherever it is
	assigned     *regexp.Regexp   // what is a secret by the name before it, the first group
}

func newMasker() *masker {
	m := &masker{words: strings.Fields(secretWords), names: strings.Fields(secretNames)}
	for _, p := range []string{
		`-----BEGIN [^-]*-----(?s:.*?)(-----END [^-]*-----|\z)`,
		`\beyJ[A-Za-z0-9_-]{5,}(\.[A-Za-z0-9_-]*)+`, // JWT
		`(?i)\b(proxy-authorization|authorization|set-cookie|cookie)["']?[ \t]*[:=][^\r\n]*`,
		`(?i)\b(bearer|basic|digest|negotiate)[ \t:=]+[^\s"',]{6,}`,
		`\b(sk|pk|rk|ghp|gho|ghu|ghs|ghr|github_pat|glpat|xox[a-z]|hf)[-_][\w.-]{6,}`, // keys that say what they are
		`\b(AKIA|ASIA)[A-Z0-9]{12,}`,
		`\bAIza[\w-]{20,}`,
		`://[^/\s:@]*:[^/\s@]*@`, // a URL's password
	} {
		m.whole = append(m.whole, regexp.MustCompile(p))
	}
	spelled := strings.ReplaceAll(strings.Join(m.words, "|"), "key", "[-_. ]?key")
	m.assigned = regexp.MustCompile(`(?i)((?:` + spelled + `)[\w.-]*(?:\\*["']?\s*[:=]\s*|\s+(?:is|-)\s+)|--?[\w-]*(?:` + spelled + `)[\w-]*[\s=]+)` +
		`(\\*"(?:[^"\\]|\\[^"])*(?:\\*"|\\?\z)|'[^']*(?:'|\z)|[^\s"',;&]+)`)
	return m
}

// plain is a name without what differs between spellings: case, separators, widths, accents.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, norm.NFKD.String(name))
}

// secret says whether what has this name is not for showing.
func (m *masker) secret(name string) bool {
	name = plain(name)
	for _, n := range m.names {
		if name == n {
			return true
		}
	}
	for _, w := range m.words {
		if strings.Contains(name, w) {
			return true
		}
	}
	return false
}

// announces says whether a value is the name of a secret, which is then beside it, as in
// ["--password", "x"] and {"name": "Authorization", "value": "x"}.
func (m *masker) announces(value any) bool {
	text, ok := value.(string)
	if !ok || len(text) > 64 || len(strings.Fields(text)) != 1 || !m.secret(text) {
		return false
	}
	return briefName.MatchString(text) || m.secret(brief.ReplaceAllString(text, "0"))
}

// scrub masks what looks secret inside a text.
func (m *masker) scrub(text string) string {
	for _, p := range m.whole {
		text = p.ReplaceAllLiteralString(text, masked)
	}
	return m.assigned.ReplaceAllString(text, "${1}"+masked)
}

// within is the JSON that a text is, if it is an object or an array.
func within(text string) (any, bool) {
	text = strings.TrimSpace(text)
	if text == "" || text[0] != '{' && text[0] != '[' {
		return nil, false
	}
	value, err := toolschema.Decode([]byte(text))
	return value, err == nil
}
