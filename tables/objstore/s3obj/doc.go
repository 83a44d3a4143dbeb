// Package s3obj is object storage of the S3 API: AWS's, and that of servers which
// honour If-None-Match and If-Match on puts.
//
// S3 refuses in two ways. 412 says that the condition failed; 409 says that nothing
// is settled, since another request on the key was under way, and is tried again.
// Neither the SDK nor this package ever repeats a put of which it is not known that
// it was refused: its own landed write would come back as a conflict.
//
// Every put carries a random token in the object's metadata. A put whose answer was
// lost, and one that is refused although something on the way may have sent it twice,
// is settled by looking for the token at the key.
package s3obj
