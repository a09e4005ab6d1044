// Package tenant authenticates callers.
//
// A credential is an API key, cg_ID_SECRET. The ID is public: it names the key for operators, in logs and in the
// configuration. Of the SECRET only a hash is stored: HMAC-SHA-256 under a pepper if there is one, else SHA-256. A
// slow hash, as passwords need, would add nothing: a secret is 160 random bits, which cannot be guessed however fast
// the hash is. A slow hash would also let clients with wrong keys keep the gateway busy.
//
// Keys and tenants are in the configuration (Keys), or in a store that all replicas share and each of them caches
// (Stored):
//
//	Authenticators ─► Keys
//	    ├───────────► Stored ─► cache of keys ──────────┐ memory, else
//	    │               └─► Directory ─► cache of tenants ─► Store
//	    ├───────────► tokens (package token)
//	    └───────────► Certificates
//
// A client certificate that the handshake has verified stands in for a credential if a call has none. Rules map names
// in certificates to tenants (Certificates).
//
// A gateway without configured tenants has one, to which every call belongs (Single).
package tenant
