package clienttest

import "google.golang.org/grpc"

// Retrying makes a grpc-go client repeat each call that ends with a code that clients usually retry, unless the server
// says otherwise (gRFC A6).
func Retrying() grpc.DialOption {
	return grpc.WithDefaultServiceConfig(`{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":4,
		"initialBackoff":"0.001s","maxBackoff":"0.001s","backoffMultiplier":1,
		"retryableStatusCodes":["UNAVAILABLE","INTERNAL","UNKNOWN","RESOURCE_EXHAUSTED","ABORTED","DATA_LOSS"]}}]}`)
}
