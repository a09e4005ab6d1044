// Package viewer is the page that shows a caller's OpenAPI document and can call its tools: Swagger UI as
// published, in a page of ours. All files are in the binary. The page requests nothing but its own gateway, and
// its content security policy forbids anything else.
//
//	files/   the page, written by hand, and Swagger UI, compressed; `make viewer` copies it from npm
//	fetch/   the command for that; -check verifies that the files are those of the locked version
package viewer
