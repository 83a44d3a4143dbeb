// Package telemetry says what a catalog does and how it is: metrics, spans, and ids in
// logs. metrics.go lists every metric; docs/metrics.md, the dashboard and the alerts
// are made from that list.
//
// It speaks OpenTelemetry's API and nothing of where things go: package export does.
// The nil *Recorder notes nothing and allocates nothing, so that callers need not ask
// whether anybody looks.
//
// What is noted never holds what a client sent: no keys, no actions, no paths of files.
// Spans name transactions and tables; metrics name neither, but for the tables that an
// operator asked for, up to a number.
package telemetry
