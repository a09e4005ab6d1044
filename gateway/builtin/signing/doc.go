// Package signing is capgate.v1.Artifacts: who may download a file may have a URL made by which
// others can, for a while. What a URL is good for is looked at where calls are identified
// (internal/tenant has the signatures), not here.
package signing
