// Package strictjson reads JSON that every reader understands alike.
//
// The gateway decides on arguments that somebody else carries out. JSON leaves room between
// the two: Python takes UTF-16, JavaScript the last of two equal names, Go a name in other
// case, and each does something else with a lone surrogate or with 1e999. A text that has
// any of these is refused here. What is left is RFC 8259 in UTF-8, within RFC 7493 (I-JSON),
// and with a bounded depth.
//
// A Reader makes one pass. It allocates nothing in the steady state, and its errors quote
// nothing of the text.
package strictjson
