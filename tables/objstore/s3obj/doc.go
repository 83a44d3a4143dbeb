// Package s3obj is object storage of the S3 API: AWS's, and that of servers which
// honour If-None-Match and If-Match on puts.
//
// S3 refuses in two ways. 412 says that the condition failed; 409 says that nothing
// is settled, since another request on the key was under way, and is tried again. The
// SDK's own retries are off; package remote has what is safe to repeat.
package s3obj
