package redisstore

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"
)

// keyTable is the table of keys: each key and channel of the gateway has one row.
//
//go:embed keys.md
var keyTable string

// Row is a kind of key or channel.
type Row struct {
	Pattern  string // the name without the prefix; words in capitals differ from key to key
	Type     string // of the value; "owner": a string with the tenant that owns something; "channel"
	ReadOnly bool   // gateways without the admin API do not write it
}

// Rows returns the rows of the table of keys.
func Rows(table string) (all []Row) {
	for section := range strings.SplitSeq(table, "\n## ") {
		readOnly := strings.Contains(section, "Read-only for other gateways.")
		for _, row := range rows.FindAllStringSubmatch(section, -1) {
			all = append(all, Row{row[1], row[2], readOnly})
		}
	}
	return all
}

// rows finds the name and the type in a row.
var rows = regexp.MustCompile(`(?m)^(\S+)  +(hash|sorted|set|string|stream|owner|channel)  `)

// Glob returns the pattern of Redis for the names of a row, without the prefix.
func (r Row) Glob() string { return variables.ReplaceAllString(r.Pattern, "*") }

var variables = regexp.MustCompile(`\[[A-Z]+:\]|[A-Z]+`)

// Names returns the expression that matches the names of a row, without the prefix.
func (r Row) Names() *regexp.Regexp {
	name := quotedVariables.ReplaceAllStringFunc(regexp.QuoteMeta(r.Pattern), func(variable string) string {
		if strings.HasPrefix(variable, `\[`) {
			return "([^:{}]*:)?"
		}
		return "[^:{}]*"
	})
	return regexp.MustCompile("^" + name + "$")
}

var quotedVariables = regexp.MustCompile(`\\\[[A-Z]+:\\\]|[A-Z]+`)

// ofTenant reports whether a hash tag, which begins with a tenant's name, is that of the tenant's own data. Other tags,
// such as those of slots, may begin with the same word.
func (r Row) ofTenant(tag []string) bool {
	of, own := strings.CutPrefix(r.Pattern, "{TENANT:")
	of, _, _ = strings.Cut(of, "}")
	all := strings.Split(of, ":")
	return own && len(tag) == 1+len(all) && tag[1] == all[0]
}

// ownedByTenants returns a function that reports whether a name, without the prefix, is that of a tenant's own data.
// Keys of the installation may have the same tag, such as those of a destination "limits" and of a tenant "webhooks".
func ownedByTenants(table []Row) func(name string) bool {
	var others []*regexp.Regexp
	for _, r := range table {
		if !strings.HasPrefix(r.Pattern, "{TENANT:") {
			others = append(others, r.Names())
		}
	}
	return func(name string) bool {
		tag, _, _ := strings.Cut(strings.TrimPrefix(name, "{"), "}")
		words := strings.Split(tag, ":")
		return slices.ContainsFunc(table, func(r Row) bool { return r.ofTenant(words) }) &&
			!slices.ContainsFunc(others, func(names *regexp.Regexp) bool { return names.MatchString(name) })
	}
}

// key returns the name of a key. pattern is that of its row, or of its hash tag alone. The words, which may be any
// text, replace the words in capitals; brackets are left out with their word if it is "".
func (c client) key(pattern string, words ...string) string {
	name := make([]byte, 0, 128)
	name = append(name, c.store.cfg.Prefix...)
	for i := 0; i < len(pattern); i++ {
		switch b := pattern[i]; {
		case b == '[' && words[0] == "":
			i += strings.IndexByte(pattern[i:], ']')
			words = words[1:]
		case b == '[' || b == ']':
		case b < 'A' || b > 'Z':
			name = append(name, b)
		default:
			for i+1 < len(pattern) && 'A' <= pattern[i+1] && pattern[i+1] <= 'Z' {
				i++
			}
			name, words = append(name, escaper.Replace(words[0])...), words[1:]
		}
	}
	return string(name)
}

// keys returns the names of several keys, such as those of a script. Each takes as many of the words as it needs.
func (c client) keys(words []string, patterns ...string) []string {
	all := make([]string, len(patterns))
	for i, pattern := range patterns {
		all[i] = c.key(pattern, words...)
	}
	return all
}

// channel returns the name of a channel.
func (c client) channel(name string) string { return c.store.cfg.Prefix + name }
