// Package strictjson reads JSON that every reader understands alike.
//
// The gateway decides on arguments that another program reads. JSON leaves room between the two. Python accepts
// UTF-16. JavaScript takes the last of two equal names, and Go a name in another case. Each handles a lone
// surrogate or 1e999 in its own way. This package rejects a text that has any of these. It accepts RFC 8259 in
// UTF-8, within RFC 7493 (I-JSON), and with a bounded depth.
//
// A Reader makes one pass. It allocates nothing in the steady state, and its errors quote nothing of the text.
package strictjson
