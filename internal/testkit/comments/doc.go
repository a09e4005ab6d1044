// Package comments checks that the comments of the repository's Go files name identifiers that exist.
package comments
