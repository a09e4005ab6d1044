// Package hpack codes header fields for a proxy (RFC 7541). A proxy decodes the same few fields repeatedly and
// forwards most of them unchanged, so the package is optimized for repeated fields:
//
//	                     Interner (one per shard)
//	                      ▲ first reference by index
//	block ─► Decoder ─────┴─► List of Field ─► Encoder ─► block
//	         its table        name, value      its table
//	         (a peer's)       Tag, *interned   (append-only)
//
// A peer that refers to an entry of its dynamic table repeats the field, and will probably do so again. From then on
// the field is one immutable object: decoding it copies nothing, its Tag (the result of the caller's classify
// function) is known, and an Encoder finds it by pointer. Fields that differ in each call, such as grpc-timeout, are
// copied into the List and never reach the Interner. In the steady state neither direction allocates.
//
// A List owns the bytes of its own fields, until its Reset. A Decoder's table holds at most twice its limit in bytes.
// An Interner is emptied when it is full; fields that are still referred to remain valid.
//
// The package checks nothing but the coding. The caller must check whether names are in lower case, whether
// pseudo-fields come first, and the other rules of RFC 9113 §8.2 and §8.3. It may keep the result in the Tag.
//
// Nothing in the package is safe for concurrent use: everything of a shard is used under the shard's lock.
//
//	field.go              Field, List
//	decoder.go, string.go decoding of a block
//	last.go               a field that a peer repeats but does not index
//	table.go              the decoder's dynamic table
//	intern.go             repeated fields
//	encoder.go, sent.go   encoding of a block; the encoder's dynamic table
//	static.go             RFC 7541 Appendix A
//	huffman.go            RFC 7541 Appendix B, decoding only
//	integer.go            RFC 7541 §5.1
package hpack
