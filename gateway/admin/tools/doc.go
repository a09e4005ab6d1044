// Package tools lets operators list the tools of capabilities (proto/capgate/v1/catalog_admin.proto):
package tools
