// Package invocation reads the JSON in which the clients of the front doors call tools: the fields of a
// capgate.v1.InvokeRequest, and the arguments of a tool alone.
//
// Bytes from outside have one reading: internal/lib/strictjson reads them, and its errors name the place. The texts of
// arguments and configurations pass unchanged, with their digits, their order and their spelling. The configuration
// holds secrets, so errors never quote values.
package invocation
