// Package dnstest is a DNS server whose records tests set.
package dnstest
