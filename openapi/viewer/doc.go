// Package viewer is the page that shows a caller's OpenAPI document and calls tools from there: Swagger UI,
// as its authors packed it, with a page of ours around it. Everything is in the program: the page asks
// nobody but the gateway that it is from, and its policy lets it ask nobody else.
//
//	files/   the page, by hand, and Swagger UI, compressed; `make viewer` takes it from npm
//	fetch/   does that, and with -check says whether the files are those of the locked version
package viewer
