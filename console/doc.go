// Package console is the operators' console of the admin API and the inbox of approvals: a page in HTML, a script and
// a style sheet, all in the binary. The page requests nothing but its own gateway, and its content security policy
// forbids anything else. It holds no data; everything that it shows comes from the public admin API.
//
//	src/    the pages, in TypeScript; README.md describes how a screen is made
//	page/   the HTML and the icon, by hand
//	dist/   the script and the style sheet as `make console` builds them, compressed
//	pack/   the command that copies a build into dist/; -check compares
package console
