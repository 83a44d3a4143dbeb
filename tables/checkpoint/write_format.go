package checkpoint

import (
	"context"
	"io"
	"strings"

	"github.com/txcoord/txcoord/tables/datafile"
)

// headColumnsOnly leaves out the file actions, which are nearly all of a checkpoint.
var headColumnsOnly = datafile.Select{
	Keep: func(path string) bool {
		top, _, _ := strings.Cut(path, ".")
		return actions[top] && top != "add" && top != "remove"
	},
	BinaryAsText: true,
}

// keyColumnsOnly is what tells files apart.
var keyColumnsOnly = datafile.Select{
	Keep: func(path string) bool {
		top, rest, nested := strings.Cut(path, ".")
		if top != "add" && top != "remove" {
			return false
		}
		return !nested || rest == "path" || rest == "deletionVector" || strings.HasPrefix(rest, "deletionVector.")
	},
	BinaryAsText: true,
}

// ReadHead is Read without add and remove: the columns of those are not touched.
func ReadHead(ctx context.Context, r io.ReaderAt, size int64, yield func(line []byte) error) error {
	return readRows(ctx, r, size, headColumnsOnly, yield)
}

// ReadKeys yields add and remove alone, with path and deletionVector and nothing else.
func ReadKeys(ctx context.Context, r io.ReaderAt, size int64, yield func(line []byte) error) error {
	return readRows(ctx, r, size, keyColumnsOnly, yield)
}

func readRows(ctx context.Context, r io.ReaderAt, size int64, sel datafile.Select, yield func(line []byte) error) error {
	return datafile.Rows(ctx, r, size, sel, func(line []byte) error {
		if len(line) == len("{}") {
			return nil
		}
		return yield(line)
	})
}
