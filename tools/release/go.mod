// release: makes everything that a release has. A module of its own, so that its dependencies never enter the gateway.
module github.com/capgate/capgate/tools/release

go 1.26.0

require (
	github.com/cpuguy83/go-md2man/v2 v2.0.7
	github.com/spdx/tools-golang v0.5.7
)

require (
	github.com/anchore/go-struct-converter v0.1.0 // indirect
	github.com/russross/blackfriday/v2 v2.1.0 // indirect
)
