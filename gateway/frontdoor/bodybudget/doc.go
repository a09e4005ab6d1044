// Package bodybudget bounds what the bodies of HTTP requests take that are read whole before their calls begin.
//
// No tenant holds more than four times what is free, so one alone has four fifths of the memory, and
// who comes finds the rest (Choudhury and Hahne, Dynamic Queue Length Thresholds, 1998). All whom
// memory does not know share a quarter, of which each address leaves room for others in the same way; who sends
// more than a little, or comes when that share is used up, is asked who they are before more is read. Where there are
// no tenants, addresses share what one tenant may have.
package bodybudget
