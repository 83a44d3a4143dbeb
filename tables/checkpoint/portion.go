package checkpoint

import (
	"strings"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/datafile"
)

// columns are those of a portion. What the JSON form of an action does not have is left
// out. stats_parsed stands in for stats in the rows that have no stats (the table property
// delta.checkpoint.writeStatsAsJson=false); partitionValues is always there.
func columns(what tables.Portion) datafile.Select {
	sel := datafile.Select{BinaryAsText: true}
	switch what {
	case tables.HeadActions:
		sel.Keep = func(path string) bool {
			top, _, _ := strings.Cut(path, ".")
			return actions[top] && !files[top]
		}
	case tables.FileKeys:
		sel.Keep = func(path string) bool {
			top, rest, nested := strings.Cut(path, ".")
			return files[top] && (!nested || fileKey(rest))
		}
	case tables.LiveActions:
		sel.Keep = func(path string) bool {
			top, rest, nested := strings.Cut(path, ".")
			return actions[top] && (!nested || !files[top] || fileKey(rest) || kept[rest])
		}
	default:
		sel.Keep = func(path string) bool {
			top, rest, nested := strings.Cut(path, ".")
			return actions[top] && (!nested || !strings.HasSuffix(rest, "_parsed") || rest == "stats_parsed")
		}
		sel.Text = map[string]string{"add.stats_parsed": "stats"}
	}
	return sel
}

// actions are the columns that are read. Others are ignored: the protocol lets
// writers add columns, and a checkpoint holds neither commitInfo nor cdc.
var actions = map[string]bool{
	"txn": true, "add": true, "remove": true, "metaData": true, "protocol": true,
	"domainMetadata": true, "checkpointMetadata": true, "sidecar": true,
}

// files are the actions of which there is one for each file.
var files = map[string]bool{"add": true, "remove": true}

// fileKey says of a field that it is part of what tells files apart.
func fileKey(field string) bool {
	return field == "path" || field == "deletionVector" || strings.HasPrefix(field, "deletionVector.")
}

// kept are the other fields of a file that a table's state keeps.
var kept = map[string]bool{"size": true, "baseRowId": true, "defaultRowCommitVersion": true}
