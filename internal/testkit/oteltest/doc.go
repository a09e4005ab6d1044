// Package oteltest is an OpenTelemetry collector for tests: it takes spans by OTLP, over gRPC
// and over HTTP, and keeps them. It can fail, and hang.
package oteltest
