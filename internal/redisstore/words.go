package redisstore

import "strings"

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
