// Package overload implements the filter that sheds calls when the process is overloaded: too many calls, too much
// memory, or too long a delay. internal/overload measures that, and determines which tenants exceed their fair share.
//
// It decides from memory, before the call's message is read, and does not delay calls. It also limits the log lines of
// shed calls.
package overload
