// Package objectstore keeps a journal in an object store that honours If-None-Match
// and If-Match on puts: for those who have S3, or what speaks like it, and want to
// run nothing else.
//
// One key is one object below a prefix. Its name is the key, written so that names
// sort as keys do, and that any key is one segment; its content is the value behind
// a random number, so that two writes of equal bytes have different ETags also where
// the ETag is a hash of the content. A revision is the ETag.
package objectstore
