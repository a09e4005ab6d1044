// Package scope is the filter that rejects calls whose credential lacks the scope of their method. It needs only the
// method, so that it comes before a message is read. The filter authorize, not this one, decides about tools.
package scope
