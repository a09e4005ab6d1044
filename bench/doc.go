// Command bench measures what a call costs a proxy: capgate and its peers side by
// side, each on one core, interleaved, in the proxy's own processor time. See
// README.md.
//
//	main.go      start, and the roles that this program plays as its own child
//	options.go   flags
//	scenario.go  what is measured          growth.go  how capgate's cost grows
//	bench.go     backend, peers, windows   goals.go   what capgate should reach
//	report.go    tables                    readme/    where they are kept
//	requests.go  JSON and MCP              profiles.go CPU profiles of capgate
//	mcp.go       MCP beside JSON
package main
