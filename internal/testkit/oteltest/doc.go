// Package oteltest is an OpenTelemetry collector for tests. It stores spans that it gets in OTLP, over gRPC and over
// HTTP. It can fail, and hang.
package oteltest
