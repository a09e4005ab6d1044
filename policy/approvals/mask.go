package approvals

import (
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/capgate/capgate/internal/toolschema"
)

// secretWords are what names of secrets have in them, as plain writes it, and secretNames
// are whole names of some. The more they hide the less can be judged, so numbers of tokens
// are a price, and authors are not.
const (
	secretWords = "password passwd passphrase passcode pwd secret token apikey authorization credential privatekey accesskey " +
		"signingkey encryptionkey cookie session bearer jwt connectionstring"
	secretNames = "auth pass pin otp pw creds"
)

// An object can be a pair of a name and a value, as in {"name": "Authorization", "value": "x"}.
// Only these words make one: any other member beside the name of a secret is shown.
const (
	pairNames  = "k key name header field variable var env param parameter property option flag"
	pairValues = "v val value values"
)

// What is said by three letters is in ids by chance. briefName is a name that has one of them as a word.
var (
	brief     = regexp.MustCompile(`(?i)pwd|jwt`)
	briefName = regexp.MustCompile(`(?:^|[^A-Za-z0-9])(?i:pwd|jwt)(?:[^A-Za-z]|[A-Z][a-z])|[a-z](?:Pwd|Jwt|PWD|JWT)(?:[^a-z]|$)|(?i:pwd|jwt)$`)
)

// masker finds secrets in arguments. Make one with newMasker.
//
// The arguments are written by whoever wants them approved. So a mask covers the value of a
// secret and nothing beside it, says why and how long it is, and no text of theirs looks like one.
type masker struct {
	words, names []string
	pairNames    map[string]bool
	pairValues   map[string]bool
	finders      []finder
}

// finder finds values inside a text.
type finder struct {
	*regexp.Regexp
	value  int                     // which group is the value
	secret func(value string) bool // whether it is one; nil: it is
}

func newMasker() *masker {
	m := &masker{words: strings.Fields(secretWords), names: strings.Fields(secretNames), pairNames: setOf(pairNames), pairValues: setOf(pairValues)}
	find := func(value int, secret func(string) bool, pattern string) {
		m.finders = append(m.finders, finder{regexp.MustCompile(pattern), value, secret})
	}
	const bare = "[^\\s\"',;&|<>(){}$`\\\\]" // what ends no word, in no shell
	find(1, looksRandom, `-----BEGIN [A-Z0-9 ]{1,40}-----\s*((?:[A-Za-z0-9+/=]{8,}(?:\r?\n|\\n|\s*\z|-----END))+)`)
	find(0, nil, `\beyJ[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*)+`) // JWT
	find(1, plausibleSecret, `(?i)\bauthorization["']?[ \t]*[:=][ \t]*["']?((?:(?:bearer|basic|digest|negotiate|token|apikey|ntlm)[ \t]+)?`+bare+`{4,})`)
	find(1, nil, `(?i)\bcookie["']?[ \t]*[:=][ \t]*["']?([\w.-]+=`+bare+`+(?:;[ \t]*[\w.-]+=`+bare+`+)*)`)
	find(1, looksRandom, `(?i)\b(?:bearer|basic|digest|negotiate)[ \t:=]+([\w.~+/=-]{6,})`)
	find(0, looksRandom, `\b(?:sk|pk|rk|ghp|gho|ghu|ghs|ghr|github_pat|glpat|xox[a-z]|hf)[-_][\w.-]{6,}`) // keys that say what they are
	find(0, nil, `\b(?:AKIA|ASIA)[A-Z0-9]{12,}`)
	find(0, nil, `\bAIza[\w-]{20,}`)
	find(1, nil, `://[^/\s:@]*:([^/\s@]+)@`) // a URL's password
	spelled := strings.ReplaceAll(strings.Join(m.words, "|"), "key", "[-_. ]?key")
	// By the name before it: what is set to it, and what only follows it.
	find(1, plausibleSecret, `(?i)(?:`+spelled+`)[\w.-]*(?:\\*["']?\s*[:=]\s*)(`+bare+`+)`)
	find(1, secretPhrase, `(?i)(?:`+spelled+`)[\w.-]*(?:\\*["']?\s*[:=]\s*)(?:\\*"((?:[^"\\]|\\[^"])*)(?:\\*"|\\?\z))`)
	find(1, secretPhrase, `(?i)(?:`+spelled+`)[\w.-]*(?:\\*["']?\s*[:=]\s*)'([^']*)(?:'|\z)`)
	find(1, looksRandom, `(?i)(?:(?:`+spelled+`)[\w.-]*\s+(?:is|-)|--?[\w-]*(?:`+spelled+`)[\w-]*)[\s=]+["']?(`+bare+`+)`)
	return m
}

func setOf(words string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(words) {
		set[w] = true
	}
	return set
}

// normalize is a name without what differs between spellings: case, separators, widths, accents.
func normalize(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, norm.NFKD.String(name))
}

// secret says whether what has this name is not for showing.
func (m *masker) secret(name string) bool {
	name = normalize(name)
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

// namesSecret says whether a value is the name of a secret, which may be beside it, as in
// ["--password", "x"].
func (m *masker) namesSecret(value any) bool {
	text, ok := value.(string)
	if !ok || len(text) > 64 || len(strings.Fields(text)) != 1 || !m.secret(text) {
		return false
	}
	return briefName.MatchString(text) || m.secret(brief.ReplaceAllString(text, "0"))
}

// pair says under which name of an object there is the value of a secret that another member
// names; "" if the object is no such pair.
func (m *masker) pair(object map[string]any) (value string) {
	if len(object) > 8 {
		return "" // more than a pair with some attributes
	}
	announced := false
	for name, v := range object {
		switch {
		case m.pairNames[normalize(name)]:
			announced = announced || m.namesSecret(v)
		case m.pairValues[normalize(name)]:
			value = name
		}
	}
	if !announced {
		return ""
	}
	return value
}

// maskText masks what looks secret inside a text.
func (m *masker) maskText(text string) string {
	for _, f := range m.finders {
		var out strings.Builder
		from := 0
		for _, at := range f.FindAllStringSubmatchIndex(text, -1) {
			begin, end := at[2*f.value], at[2*f.value+1]
			if begin < from || begin == end || strings.Contains(text[begin:end], maskPrefix) || f.secret != nil && !f.secret(text[begin:end]) {
				continue
			}
			out.WriteString(text[from:begin])
			out.WriteString(maskOf(text[begin:end], "by what it looks like"))
			from = end
		}
		if from > 0 {
			text = out.String() + text[from:]
		}
	}
	return text
}

// embeddedJSON is the JSON that a text is, if it is an object or an array.
func embeddedJSON(text string) (any, bool) {
	text = strings.TrimSpace(text)
	if text == "" || text[0] != '{' && text[0] != '[' {
		return nil, false
	}
	value, err := toolschema.Decode([]byte(text))
	return value, err == nil
}
