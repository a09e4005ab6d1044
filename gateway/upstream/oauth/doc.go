// Package oauth authenticates the gateway to servers by OAuth 2.1, as the authorization specification of MCP requires:
// the metadata of a server names its authorization server (RFC 9728), whose metadata names the token endpoint (RFC
// 8414). The tokens are those of a fleet. A caller's credential is never part of it.
package oauth
