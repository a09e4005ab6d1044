// Package signing implements capgate.v1.Artifacts: a caller that may download a file can sign a URL that lets others
// download it, for a limited time. The signature is verified where calls are authenticated (internal/tenant), not
// here.
package signing
