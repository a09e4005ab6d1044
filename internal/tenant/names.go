package tenant

// Names returns the names by which the people and credentials behind a caller are counted: of two callers that share
// one, a single person may hold both credentials. A user that the caller asserts is one of them, and so is the
// credential that asserts it.
func (i *Identity) Names() (names []string) {
	if i.User != "" && (i.Person != nil || i.Key != "") {
		names = append(names, "user "+i.User)
	}
	switch {
	case i.Person != nil: // Key is the name of the issuer
	case i.Subject != "":
		names = append(names, "user "+i.Subject)
	case IsKeyID(i.Key):
		names = append(names, KeyCredential(i.Key))
	case i.Key != "":
		names = append(names, "credential certificate "+i.Key)
	}
	return names
}

// KeyCredential returns the name by which an API key is counted.
func KeyCredential(id string) string { return "credential key " + id }

// MaxMakers bounds the makers of a key.
const MaxMakers = 32

// UnknownMaker is a maker that may be any: the key has too many.
const UnknownMaker = "*"

// Line returns the id of the first of the keys that replaced each other up to this one. Their holder is the same.
func (k *Key) Line() string {
	if k.First != "" {
		return k.First
	}
	return k.ID
}

// Makers returns the makers of a key that a principal with these names makes: these names, and the makers of its own
// key, which may be nil.
func Makers(names []string, by *Key, before []string) (all []string) {
	lists := [][]string{before, names}
	if by != nil {
		lists = append(lists, []string{KeyCredential(by.Line())}, by.Makers)
	}
	seen := map[string]bool{}
	for _, list := range lists {
		for _, name := range list {
			if !seen[name] {
				seen[name] = true
				all = append(all, name)
			}
		}
	}
	if len(all) > MaxMakers {
		all = []string{UnknownMaker}
	}
	return all
}
