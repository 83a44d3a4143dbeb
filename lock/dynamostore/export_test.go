package dynamostore

// PartitionOf is where the layout has a key.
var PartitionOf = partitionOf

// PrefixEnd is where a scan ends.
var PrefixEnd = prefixEnd
