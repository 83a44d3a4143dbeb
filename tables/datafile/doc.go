// Package datafile knows the data files of Delta tables: it reads the footer of a
// Parquet file and makes the add action that a transaction stages for it, writes
// small files of its own, and renders rows as JSON for checks and for package
// checkpoint. With checkpoint it is the only place that knows Arrow.
package datafile
