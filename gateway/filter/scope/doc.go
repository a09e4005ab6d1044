// Package scope is the filter that rejects calls whose credential lacks the scope of their method. It needs only the
// method, so that it comes before a message is read. Who may call which tool is decided by authorize, not here.
package scope
