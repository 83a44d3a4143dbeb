// Package dynamo keeps the entries of a log store in a DynamoDB table, as Spark's
// S3DynamoDBLogStore does:
//
//	tablePath   text, partition key
//	fileName    text, sort key
//	tempPath    text
//	complete    text, "true" or "false"
//	expireTime  number, seconds since the epoch; in complete entries only
//
// The table is Spark's as much as ours: nothing else is kept in it, no attribute is
// added, and no item is ever removed. Attributes that others added stay when an entry
// is completed. All reads are consistent.
package dynamo
