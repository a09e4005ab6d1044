package call

import "slices"

// Revision is a revision of MCP. The zero value is any that the gateway does not support.
type Revision uint8

// revisionNames returns the names of the revisions. The first one is for all others.
func revisionNames() [5]string {
	return [...]string{"other", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}
}

// RevisionOf returns the revision with a name. A client that sends none has 2025-03-26 (2025-11-25, Transports,
// "Protocol Version Header").
func RevisionOf(name string) Revision {
	names := revisionNames()
	if name == "" {
		return 1
	}
	return Revision(max(slices.Index(names[:], name), 0))
}

// Revisions returns the names of the supported revisions, newest first.
func Revisions() []string {
	names := revisionNames()
	supported := names[1:]
	slices.Reverse(supported)
	return supported
}

// String returns the name of the revision, which is one of few.
func (r Revision) String() string { return revisionNames()[r] }
