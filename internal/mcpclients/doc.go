// Package mcpclients has the entries by which MCP clients find a gateway: capgate link writes them into the clients'
// files, and the pages /docs and Connect show them.
//
//	client.go     the clients, their files and their entries
//	document.go   the entries of all clients, for pages
package mcpclients
