// Package dynamoapi sends requests to one DynamoDB table, and says what became of
// them.
//
// The SDK would send a write again when it hears nothing, and the second try of a
// conditional one would be refused by what the first has written; so it may not, for
// any write. What DynamoDB answers with a fault of the caller's (HTTP 4xx: the
// condition, a limit on the rate, a conflict with a transaction, an invalid request)
// was certainly not carried out. Everything else that happens after a connection was
// there, be it a time-out, a broken connection or HTTP 5xx, is ErrUnknown. A write
// that is refused for its rate is sent again, with growing pauses, as long as a
// request may take; so is a read that did not get an answer.
package dynamoapi
