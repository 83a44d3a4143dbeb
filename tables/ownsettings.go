package tables

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// switches are properties that are true or false.
var switches = []string{
	"delta.appendOnly", "delta.enableChangeDataFeed", "delta.enableDeletionVectors", "delta.enableRowTracking",
	"delta.enableInCommitTimestamps", "delta.enableTypeWidening", "delta.autoOptimize.optimizeWrite", "delta.autoOptimize.autoCompact",
	"delta.checkpoint.writeStatsAsJson", "delta.checkpoint.writeStatsAsStruct", "delta.enableExpiredLogCleanup", "delta.enableIcebergCompatV1",
	"delta.enableIcebergCompatV2", "delta.randomizeFilePrefixes",
}

// counts are properties that are whole numbers, with their least value.
var counts = map[string]int64{
	"delta.checkpointInterval": 1, "delta.dataSkippingNumIndexedCols": -1, "delta.randomPrefixLength": 1, "delta.targetFileSize": 1,
}

// checkOwn refuses a property that we would be the first to write, where engines
// could not make sense of it: what others wrote is theirs.
func checkOwn(key, value string) error {
	refuse := func(why, remedy string) error {
		return &InputError{Field: "properties." + key, Value: cut(value), Reason: why, Remedy: remedy}
	}
	number, isCount := counts[key]
	constraint, isConstraint := strings.CutPrefix(key, "delta.constraints.")
	switch {
	case strings.TrimSpace(key) == "":
		return &InputError{Field: "properties", Value: cut(key), Reason: "a property has no name", Remedy: "name it"}
	case key == "delta.minReaderVersion", key == "delta.minWriterVersion":
		return refuse("is the protocol's, and no property", "set the property that needs the feature; the protocol follows")
	case slices.Contains(switches, key) && !strings.EqualFold(value, "true") && !strings.EqualFold(value, "false"):
		return refuse("is neither true nor false", "write true or false")
	case isCount:
		if n, err := strconv.ParseInt(value, 10, 64); err != nil || n < number {
			return refuse("is no whole number, or too small", fmt.Sprintf("write a number from %d", number))
		}
	case isConstraint && strings.TrimSpace(constraint) == "":
		return refuse("a constraint has no name", "name it: delta.constraints.NAME")
	case isConstraint && strings.TrimSpace(value) == "":
		return refuse("a constraint says nothing, and no engine could check it", "write an expression, such as id > 0")
	}
	return nil
}

// notInNames are characters that Parquet's writers in Spark do not take in the name of
// a column, unless column mapping gives it another one in the files.
const notInNames = " ,;{}()\n\t="

func checkColumnName(field, name string, mapped bool) error {
	if i := strings.IndexAny(name, notInNames); i >= 0 && !mapped {
		return &InputError{
			Field: field, Value: cut(name), Reason: fmt.Sprintf("has a character (%q) that columns without column mapping cannot have", name[i]),
			Remedy: "choose a name without any of \" ,;{}()=\", tabs and line ends, or turn column mapping on with an engine",
		}
	}
	return nil
}
