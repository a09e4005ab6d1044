// Package notice writes events of approvals for people: as messages of Slack and Teams, and as e-mail.
//
//	notice.go   the words: a title, fields, the arguments, the link
//	visible.go  invisible characters of callers are made visible, and texts are bounded
//	slack.go    Block Kit, for an incoming webhook
//	teams.go    an Adaptive Card, for a webhook of Workflows
//	mail.go     a message with a plain and an HTML part; header.go has its header
//
// Names, tools and arguments are the callers' texts. No format lets them become markup, a mention, a link, a header or
// another line. A button opens the page of the approval and decides nothing.
//
// The package sends nothing.
package notice
