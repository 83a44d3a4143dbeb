package contend

// The list prices that Price takes, in dollars for a million: S3 Standard and DynamoDB on
// demand in us-east-1, as published for 2026 (aws.amazon.com/s3/pricing,
// aws.amazon.com/dynamodb/pricing/on-demand). Deletes of objects cost nothing.
const (
	PricePut       = 5.0   // PUT, COPY, POST and LIST
	PriceGet       = 0.4   // GET and HEAD
	PriceWriteUnit = 0.625 // a KiB written
	PriceReadUnit  = 0.125 // 4 KiB read, consistently
)

// Price is what requests cost, in dollars. Puts that were refused cost as others do.
func Price(r Requests) float64 {
	millionths := PricePut*float64(r["put"]+r["put refused"]+r["list"]) + PriceGet*float64(r["get"]+r["head"]) +
		PriceWriteUnit*float64(r[WriteUnits]) + PriceReadUnit*float64(r[ReadUnits])
	return millionths / 1e6
}
