// Package logins holds the logins of operators at MCP servers that require OAuth 2.0: an operator authorizes a fleet
// with capgate fleets login once, and each replica sends the fleet's access token and refreshes it. What is stored is
// encrypted, and bound to the URL of the fleet's server, the configured issuer and the configured client.
package logins
