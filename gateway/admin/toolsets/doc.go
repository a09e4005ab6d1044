// Package toolsets lets operators manage toolsets (proto/capgate/v1/toolsets.proto):
//
//	server.go   the methods of the service
//	message.go  toolsets as messages, with the state of their tools
//	view.go     what an operator may see
//	text.go     the text of a toolset, which is read like one of the configuration
package toolsets
