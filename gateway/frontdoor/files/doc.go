// Package files transfers files between HTTP and capabilities: a request's body to UploadInputArtifact, and
// DownloadOutputArtifact to a response. It calls capabilities as a client of the gateway. The JSON API
// (gateway/frontdoor/rest) has the routes, and writes the errors.
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
// No file is buffered whole: an upload has one chunk in memory, and what flow control allows in flight, so that a slow
// capability slows its client down. A download is no faster than its client reads.
package files
