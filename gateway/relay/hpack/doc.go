// Package hpack codes header fields for a proxy (RFC 7541). A proxy decodes the
// same few fields again and again and sends most of them on unchanged, so the
// package is built around fields that have proved popular:
//
//	                     Interner (one per shard)
//	                      ▲ first reference by index
//	block ─► Decoder ─────┴─► List of Field ─► Encoder ─► block
//	         its table        name, value      its table
//	         (a peer's)       Tag, *interned   (append-only)
//
// A peer that refers to an entry of its dynamic table says by it that the field
// comes again. From then on the field is one immutable object: decoding it copies
// nothing, its Tag (what the caller's classify function made of it) is known, and
// an Encoder finds it by pointer. Fields that differ in each call, such as
// grpc-timeout, are copied into the List and never reach the Interner. In steady
// state neither direction allocates.
//
// Memory. A List owns the bytes of its own fields; they last until its Reset. A
// Decoder's table holds at most twice its limit in bytes. An Interner forgets
// everything when it is full; what still refers to a field keeps it alive.
//
// The package checks the coding and no more: whether names are lower case,
// pseudo-fields come first and so on (RFC 9113 §8.2, §8.3) is for the caller to
// check, who can keep the answer in the Tag.
//
// Nothing here is safe for concurrent use: everything of a shard is used under
// the shard's lock.
//
//	field.go              Field, List
//	decoder.go, string.go a block in
//	table.go              the decoder's dynamic table
//	intern.go             popular fields
//	encoder.go, sent.go   a block out; the encoder's dynamic table
//	static.go             RFC 7541 Appendix A
//	huffman.go            RFC 7541 Appendix B, decoding only
//	integer.go            RFC 7541 §5.1
package hpack
