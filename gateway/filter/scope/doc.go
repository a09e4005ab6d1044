// Package scope implements the filter that rejects calls whose credential lacks the scope of their method. It needs
// only the method, so it runs before a message is read. The filter authorize decides about tools.
package scope
