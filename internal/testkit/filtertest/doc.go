// Package filtertest has calls for unit tests of filters, with a stream that has headers and can wait, but without a
// relay, driver or network. It is not part of the gateway.
package filtertest
