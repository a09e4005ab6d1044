// Package invocation reads the JSON in which the clients of the front doors call tools: the fields of a
// capgate.v1.InvokeRequest, and the arguments of a tool alone.
//
// internal/lib/strictjson ensures that the JSON is unambiguous; its errors name the position. Arguments and
// configurations are forwarded unchanged, byte for byte. The configuration contains secrets, so errors never quote
// values.
package invocation
