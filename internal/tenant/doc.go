// Package tenant turns the credential of a call into who calls.
//
// A credential is an API key, cg_ID_SECRET. The ID is public: it names the key to operators,
// in logs and in the configuration. Of the SECRET only a hash is kept, HMAC-SHA-256 under
// a pepper where there is one, else SHA-256. A slow hash, as passwords need, would add
// nothing: a secret is 160 random bits, which nobody guesses however fast the hash is, and
// it would let anybody who sends wrong keys keep the gateway busy.
//
// Keys and tenants are in the configuration (Keys), or in a store that all replicas share, of which
// each has in memory what it was asked for (Stored):
//
//	Identities ─► Keys
//	    ├───────► Stored ─► lookup of keys ──────────┐ memory, else
//	    │           └─► Directory ─► lookup of tenants ─► Store
//	    ├───────► what knows tokens
//	    └───────► Certificates
//
// A client certificate that the handshake has verified stands in for a credential where a call
// shows none: rules say which names in certificates are whose (Certificates).
//
// A gateway to which no tenants are configured has one, to whom every call belongs (Single).
package tenant
