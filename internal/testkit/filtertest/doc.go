// Package filtertest has calls for unit tests of filters: with a stream that has headers and can wait, and no relay,
// driver or network. It is not a part of the gateway.
package filtertest
