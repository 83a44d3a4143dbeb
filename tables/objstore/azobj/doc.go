// Package azobj is object storage of Azure Blob Storage. Conditions are those on
// ETags, which no two puts share.
package azobj
