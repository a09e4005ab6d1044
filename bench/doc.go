// Command bench measures the processor time that capgate and its peers spend on a call. The proxies run interleaved,
// each on one core. See README.md.
//
//	main.go      start, and the roles of the child processes
//	options.go   flags
//	scenario.go  what is measured          growth.go  how capgate's cost grows
//	bench.go     backend, peers, windows   goals.go   upper bounds for capgate
//	report.go    tables                    readme/    rewriting the README
//	requests.go  JSON and MCP              profiles.go CPU profiles of capgate
//	mcp.go       MCP beside JSON
package main
