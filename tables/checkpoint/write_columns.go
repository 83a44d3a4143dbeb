package checkpoint

import (
	"fmt"

	"github.com/txcoord/txcoord/tables"
)

// columnsOf are the columns of a file, one per action (the protocol's "Checkpoint
// Schema").
func columnsOf(c tables.CheckpointColumns) ([]*node, error) {
	typed, err := typedOf(c)
	if err != nil {
		return nil, fmt.Errorf("columns of a checkpoint: %w", err)
	}
	files := []*node{addColumn(c, typed), removeColumn()}
	switch c.Kind {
	case tables.SidecarFile:
		return files, nil
	case tables.MainFile:
		return append(append(headColumns(), files...), v2Columns()...), nil
	default:
		return append(headColumns(), files...), nil
	}
}

func headColumns() []*node {
	return []*node{
		plainGroup("txn", text("appId"), long("version"), long("lastUpdated")),
		plainGroup("metaData",
			text("id"), text("name"), text("description"),
			plainGroup("format", text("provider"), pairs("options")),
			text("schemaString"), texts("partitionColumns"), pairs("configuration"), long("createdTime")),
		plainGroup("protocol", number("minReaderVersion"), number("minWriterVersion"), texts("readerFeatures"), texts("writerFeatures")),
		plainGroup("domainMetadata", text("domain"), text("configuration"), flag("removed")),
	}
}

func v2Columns() []*node {
	return []*node{
		plainGroup("checkpointMetadata", long("version"), pairs("tags")),
		plainGroup("sidecar", text("path"), long("sizeInBytes"), long("modificationTime"), pairs("tags")),
	}
}

func vectorColumn() *node {
	return plainGroup("deletionVector", text("storageType"), text("pathOrInlineDv"), number("offset"), number("sizeInBytes"), long("cardinality"))
}

var notChanged = []byte("false")

// The places of the columns that others are derived from.
const (
	placePath = iota
	placePartition
	placeDataChange
)

// addColumn: the typed columns are derived from stats and partitionValues, which
// need not have a column themselves.
func addColumn(c tables.CheckpointColumns, typed typedColumns) *node {
	children := []*node{
		placePath: text("path"), placePartition: pairs("partitionValues"), placeDataChange: flag("dataChange"),
	}
	children = append(children, long("size"), long("modificationTime"), pairs("tags"), vectorColumn(),
		long("baseRowId"), long("defaultRowCommitVersion"), text("clusteringProvider"))
	parsedStats, parsedPartition := -1, -1
	if typed.stats != nil {
		parsedStats = len(children)
		children = append(children, typed.stats)
	}
	if typed.partition != nil {
		parsedPartition = len(children)
		children = append(children, typed.partition)
	}
	stats, extra := len(children), []string{"stats"}
	if statsAsJSON(c.MetaData) {
		children, extra = append(children, text("stats")), nil
	}
	return group("add", children, extra, func(values [][]byte) {
		values[placeDataChange] = notChanged
		if parsedStats >= 0 {
			values[parsedStats] = inner(values[stats])
		}
		if parsedPartition >= 0 {
			values[parsedPartition] = values[placePartition]
		}
	})
}

// inner is the JSON inside a string; nil if there is none.
func inner(raw []byte) []byte {
	if raw == nil {
		return nil
	}
	text, err := unquoted(raw)
	if err != nil || len(text) == 0 {
		return nil
	}
	return text
}

func removeColumn() *node {
	children := []*node{
		placePath: text("path"), placePartition: pairs("partitionValues"), placeDataChange: flag("dataChange"),
	}
	children = append(children, long("size"), long("deletionTimestamp"), flag("extendedFileMetadata"), vectorColumn(),
		long("baseRowId"), long("defaultRowCommitVersion"))
	return group("remove", children, nil, func(values [][]byte) { values[placeDataChange] = notChanged })
}
