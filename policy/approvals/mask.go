package approvals

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/capgate/capgate/internal/toolschema"
)

// secretWords are parts of secrets' names, in the form that plain writes. secretNames are whole names. More
// masks leave less to judge, so counts of tokens are shown as a price, and authors are shown.
const (
	secretWords = "password passwd passphrase passcode pwd secret token apikey authorization credential " +
		"privatekey accesskey " +
		"signingkey encryptionkey cookie session bearer jwt connectionstring"
	secretNames = "auth pass pin otp pw creds"
)

// pairNames and pairValues are the keys of objects that are a pair of a name and a value, as in {"name":
// "Authorization", "value": "x"}. Other members beside the name of a secret are shown.
const (
	pairNames  = "k key name header field variable var env param parameter property option flag"
	pairValues = "v val value values"
)

// Words of three letters occur in ids by chance. briefName matches names that have one of them as a word.
var (
	brief     = regexp.MustCompile(`(?i)pwd|jwt`)
	briefName = regexp.MustCompile(
		`(?:^|[^A-Za-z0-9])(?i:pwd|jwt)(?:[^A-Za-z]|[A-Z][a-z])|[a-z](?:Pwd|Jwt|PWD|JWT)(?:[^a-z]|$)|(?i:pwd|jwt)$`)
)

// masker finds secrets in arguments. Make one with newMasker.
//
// The requester of an approval writes its arguments. So a mask covers only the value of a secret, states its
// reason and length, and no text of the arguments can look like one.
type masker struct {
	words, names []string
	pairNames    map[string]bool
	pairValues   map[string]bool
	finders      []finder
}

// finder finds values inside a text.
type finder struct {
	*regexp.Regexp
	marks  []string                // one of which is in the lower case of every match
	value  int                     // which group is the value
	shape  bool                    // the text itself says that it is a secret, and no name before it
	secret func(value string) bool // whether it is one; nil: it is
}

// canMatch reports whether a text may have a match. It takes a small part of the time of a search.
func (f *finder) canMatch(lowerCase string) bool {
	return slices.ContainsFunc(f.marks, func(m string) bool { return strings.Contains(lowerCase, m) })
}

// lowerCase returns a text as (?i) compares it, for which the long s is an s.
func lowerCase(text string) string { return strings.ReplaceAll(strings.ToLower(text), "\u017f", "s") }

func newMasker() *masker {
	m := &masker{
		words: strings.Fields(secretWords), names: strings.Fields(secretNames), pairNames: setOf(pairNames),
		pairValues: setOf(pairValues),
	}
	add := func(f finder, marks, pattern string) {
		f.Regexp, f.marks = regexp.MustCompile(pattern), strings.Fields(marks)
		m.finders = append(m.finders, f)
	}
	find := func(value int, secret func(string) bool, marks, pattern string) {
		add(finder{value: value, secret: secret}, marks, pattern)
	}
	shape := func(value int, secret func(string) bool, marks, pattern string) {
		add(finder{value: value, shape: true, secret: secret}, marks, pattern)
	}
	const bare = "[^\\s\"',;&|<>(){}$`\\\\]" // what ends no word, in no shell
	shape(1, looksRandom, "-----begin",
		`-----BEGIN [A-Z0-9 ]{1,40}-----\s*((?:[A-Za-z0-9+/=]{8,}(?:\r?\n|\\n|\s*\z|-----END))+)`)
	shape(0, nil, "eyj", `\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*`) // JWT
	find(1, credential, "authorization",
		`(?i)\bauthorization["']?[ \t]*[:=][ \t]*["']?((?:(?:bearer|basic|digest|negotiate|token|apikey|ntlm)[ \t]+)?`+
			bare+`{4,})`)
	find(1, nil, "cookie", `(?i)\bcookie["']?[ \t]*[:=][ \t]*["']?([\w.-]+=`+bare+`+(?:;[ \t]*[\w.-]+=`+bare+`+)*)`)
	find(1, opaque, "bearer basic digest negotiate",
		`(?i)\b(?:bearer|basic|digest|negotiate)[ \t:=]+([\w.~+/=-]{6,})`)
	// keys that say what they are
	shape(0, looksRandom, "sk- sk_ pk- pk_ rk- rk_ ghp gho ghu ghs ghr github_pat glpat xox hf- hf_",
		`\b(?:sk|pk|rk|ghp|gho|ghu|ghs|ghr|github_pat|glpat|xox[a-z]|hf)[-_][\w-]{6,}`)
	shape(0, nil, "akia asia", `\b(?:AKIA|ASIA)[A-Z0-9]{12,}`)
	shape(0, nil, "aiza", `\bAIza[\w-]{20,}`)
	find(1, nil, "://", `://[\w.~%+-]*:([\w.~%+-]+)@`) // the password of a URL, before its host
	spelled := strings.ReplaceAll(strings.Join(m.words, "|"), "key", "[-_. ]?key")
	marks := strings.Join(m.words, " ")
	for _, w := range m.words {
		if strings.HasSuffix(w, "key") { // in some spellings a word of its own
			marks = strings.ReplaceAll(marks, w, "key")
		}
	}
	// The following match by the name before the value: assignments, then other forms.
	for _, pattern := range []string{
		`(?i)(?:` + spelled + `)[\w.-]*(?:\\*["']?\s*[:=]\s*)(` + bare + `+)`,
		`(?i)(?:` + spelled + `)[\w.-]*(?:\\*["']?\s*[:=]\s*)(?:\\*"((?:[^"\\]|\\[^"])*)(?:\\*"|\\?\z))`,
		`(?i)(?:` + spelled + `)[\w.-]*(?:\\*["']?\s*[:=]\s*)'([^']*)(?:'|\z)`,
		`(?i)(?:(?:` + spelled + `)[\w.-]*\s+(?:is|-)|--?[\w-]*(?:` + spelled + `)[\w-]*)[\s=]+["']?(` + bare + `+)`,
	} {
		find(1, opaque, marks, pattern)
	}
	return m
}

func setOf(words string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(words) {
		set[w] = true
	}
	return set
}

// normalize returns a name without differences of case, separators, widths and accents.
func normalize(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, norm.NFKD.String(name))
}

// secret reports whether the value of this name must be masked.
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

// namesSecret reports whether a value is the name of a secret that may follow it, as in
// ["--password", "x"].
func (m *masker) namesSecret(value any) bool {
	text, ok := value.(string)
	if !ok || len(text) > 64 || len(strings.Fields(text)) != 1 || !m.secret(text) {
		return false
	}
	return briefName.MatchString(text) || m.secret(brief.ReplaceAllString(text, "0"))
}

// pair returns the key of an object that has the value of a secret which another member names; "" if there
// is none.
func (m *masker) pair(object map[string]any) (value string) {
	if len(object) > 8 {
		return "" // more than a pair with a few attributes
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

// maskText masks likely secrets in a text. If shapes is set, it masks only secrets of a recognizable form.
func (m *masker) maskText(text string, shapes bool) string {
	lower := lowerCase(text)
	for _, f := range m.finders {
		if shapes && !f.shape || !f.canMatch(lower) {
			continue
		}
		var out strings.Builder
		from := 0
		for _, at := range f.FindAllStringSubmatchIndex(text, -1) {
			begin, end := at[2*f.value], at[2*f.value+1]
			if begin < from || begin == end || !bounded(text[:at[0]], text[at[0]:end], text[end:]) ||
				strings.Contains(text[begin:end], maskPrefix) || f.secret != nil && !f.secret(text[begin:end]) {
				continue
			}
			out.WriteString(text[from:begin])
			out.WriteString(maskOf(text[begin:end], "by what it looks like"))
			from = end
		}
		if from > 0 {
			text = out.String() + text[from:]
			lower = lowerCase(text)
		}
	}
	return text
}

// bounded reports whether a match is a whole word of its text, and no part of a host, a path or a command. before is
// the text before the match, with the name of the value, and after is the text after the value.
func bounded(before, match, after string) bool {
	const joins = `/.@\\` // to a longer host, path or address
	if before != "" && strings.IndexByte(joins, before[len(before)-1]) >= 0 {
		return false
	}
	switch rest := strings.TrimLeft(after, "."); {
	case rest == "":
		return true
	case len(rest) < len(after): // the end of a sentence
		return rest[0] == ' ' || rest[0] == '\n'
	case rest[0] == '@': // behind the password of a URL
		return strings.HasPrefix(match, "://")
	case rest[0] == '-':
		return strings.HasPrefix(rest, "-----END")
	default:
		return strings.IndexByte(" \t\r\n\"'\\,&)]}", rest[0]) >= 0
	}
}

// embeddedJSON parses a text that is a JSON object or array.
func embeddedJSON(text string) (any, bool) {
	text = strings.TrimSpace(text)
	if text == "" || text[0] != '{' && text[0] != '[' {
		return nil, false
	}
	value, err := toolschema.Decode([]byte(text))
	return value, err == nil
}
