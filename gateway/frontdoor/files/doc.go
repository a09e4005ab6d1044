// Package files transfers files between HTTP and capabilities: a request's body to UploadInputArtifact, and
// DownloadOutputArtifact to a response. It calls capabilities as a client of the gateway. The JSON API
// (gateway/frontdoor/rest) has the routes, and writes the errors.
//
//	files.go     New
//	upload.go    uploads a file to a capability
//	body.go      a request's body, and the limits of reading it
//	form.go      multipart/form-data: several files in one body
//	download.go  sends a file to a client
//	source.go    reads a file from a capability
//	name.go      safe names of files
//	types.go     media types, and those that a browser may show
//	digest.go    SHA-256 in headers
//	problem.go   errors of uploads and downloads, besides those of calls
//
// No file is buffered whole: an upload has one chunk in memory, and what flow control allows in flight, so that a slow
// capability slows its client down. A download is no faster than its client reads.
package files
