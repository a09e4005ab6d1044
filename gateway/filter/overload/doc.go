// Package overload is the filter that sheds calls when the process has too much to do: too many calls, too much memory,
// or bytes that wait too long. internal/overload measures that, and says which tenant is over its fair share.
//
// It decides from memory, before the call's message is read. It also says which shed calls are logged: a flood must not
// become a flood of log lines. It never looks at what a call says, and never delays one.
package overload
