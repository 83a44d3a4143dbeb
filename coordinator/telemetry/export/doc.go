// Package export takes what package telemetry notes to where it is looked at: a
// Prometheus endpoint, and an OTLP receiver by gRPC.
package export
