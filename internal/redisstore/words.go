package redisstore

import "strings"

// tag is the part of a key that selects its node of a Cluster. In a tenant's own data its first word is the tenant.
type tag []string

// key returns the name of a key under tag. The words may be any text.
func (c client) key(t tag, rest ...string) string {
	name := c.store.cfg.Prefix + "{" + joinWords(t) + "}"
	if len(rest) > 0 {
		name += ":" + joinWords(rest)
	}
	return name
}

// channel returns the name of a channel.
func (c client) channel(name ...string) string { return c.store.cfg.Prefix + joinWords(name) }

// joinWords joins words unambiguously: no two lists give the same text, and no word ends the tag.
func joinWords(all []string) string {
	escaped := make([]string, len(all))
	for i, w := range all {
		escaped[i] = escaper.Replace(w)
	}
	return strings.Join(escaped, ":")
}

// splitWords splits a text of joinWords into n words.
func splitWords(joined string, n int) ([]string, bool) {
	all := strings.Split(joined, ":")
	for i := range all {
		all[i] = unescaper.Replace(all[i])
	}
	return all, len(all) == n && joinWords(all) == joined
}

var unescaper = strings.NewReplacer("%25", "%", "%3A", ":", "%7B", "{", "%7D", "}")

var escaper = strings.NewReplacer("%", "%25", ":", "%3A", "{", "%7B", "}", "%7D")
