// Package search matches entries of lists with the words that a person types.
package search
