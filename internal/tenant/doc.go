// Package tenant turns the credential of a call into who calls. So far there are no
// credentials: a gateway has one tenant, to whom every call belongs.
package tenant
