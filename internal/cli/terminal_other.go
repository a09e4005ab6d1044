//go:build !unix

package cli

// widthOf returns the number of columns of a terminal; 0: it is unknown.
func widthOf(any) int { return 0 }

// canRead reports whether a read of a terminal returns at once; false: that is unknown.
func canRead(any) bool { return false }
