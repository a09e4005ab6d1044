// Package files carries files between HTTP and capabilities: a request's body to
// UploadInputArtifact, and DownloadOutputArtifact to a response. It reaches capabilities
// only as a client of the gateway, and decides nothing; which routes there are, and how
// errors are written, is the JSON API's (gateway/frontdoor/rest).
//
//	files.go     New
//	upload.go    one file on its way to a capability
//	body.go      a request's body, and when reading it has to end
//	form.go      multipart/form-data: several files in one body
//	download.go  a file on its way to a client
//	source.go    what a capability sends of it
//	name.go      names of files that do no harm
//	types.go     media types, and which of them a browser may show
//	digest.go    SHA-256, as headers write it
//	problem.go   what can go wrong here, besides what calls end with
//
// No file is held whole, however large: of an upload there is one chunk in memory and what
// flow control lets be on its way, so that a slow capability slows its client down; and a
// download goes no faster than its client reads.
package files
