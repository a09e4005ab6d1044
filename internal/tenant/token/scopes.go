package token

import (
	"slices"

	"github.com/capgate/capgate/internal/tenant"
)

// Scopes returns the scopes that clients may ask each of the issuers for, by their URLs, and that permit callers
// something of want. Those that an issuer does not have, or does not say that it has, are left out: an issuer
// refuses a client that asks for them (RFC 6749 §4.1.2.1).
func (v *Verifier) Scopes(urls []string, want tenant.Scopes) (common []string) {
	table := *v.table.Load()
	for n, url := range urls {
		var words []string
		if i := table[url]; i != nil {
			words = i.scopeWords(want)
		}
		if n == 0 {
			common = words
			continue
		}
		common = slices.DeleteFunc(common, func(word string) bool { return !slices.Contains(words, word) })
	}
	return common
}

// scopeWords returns the scopes that an issuer supports and that permit something of want, in the order of the
// alphabet.
func (i *issuer) scopeWords(want tenant.Scopes) (words []string) {
	supported := i.source.scopes.Load()
	if supported == nil || i.Claims.Scopes == "" { // or its tokens need none
		return nil
	}
	for _, word := range *supported {
		if i.ScopeNames[word].Any(want) {
			words = append(words, word)
		}
	}
	slices.Sort(words)
	return slices.Compact(words)
}
