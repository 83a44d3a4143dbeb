// Package gcsobj is object storage of Google Cloud Storage. Conditions are those on
// generations, which are its ETags: no two puts of a key have the same one.
package gcsobj
