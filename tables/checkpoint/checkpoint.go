// Package checkpoint reads the checkpoints of a Delta log: classic ones, each
// part of a multi-part one, V2 checkpoints in Parquet and JSON, and the sidecars
// of the latter. It yields every action as the JSON line that a commit would hold
// it in, so that one parser serves both. It knows file formats and nothing of
// replay: which checkpoint counts, whether its parts are complete and what a
// missing protocol means is package tables' business.
package checkpoint

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/datafile"
)

// Read yields the actions of a Parquet checkpoint, of one part of it, or of a V2
// sidecar, in file order, as one JSON line each without a line end. Fields that
// are null are left out, those of a map stay; 64-bit integers are exact. Of a V2
// checkpoint it yields the checkpointMetadata and sidecar lines too: the caller
// opens the sidecars and calls Read for each. The columns of what is not asked for are
// not touched. A row without an action is damage, unless the file has columns that are no
// actions known here: what such a row holds is not for us.
//
// The line is reused after yield returns. An error of yield ends the reading and
// is returned as it is. Actions may have been yielded before a damaged file is
// noticed, so nothing yielded counts until Read has returned nil. Memory does not
// grow with the file.
func Read(ctx context.Context, r io.ReaderAt, size int64, what tables.Portion, yield func(line []byte) error) error {
	row := int64(-1)
	sel, whole := columns(what), what == tables.AllActions || what == tables.LiveActions
	keep := sel.Keep
	sel.Keep = func(path string) bool {
		top, _, _ := strings.Cut(path, ".")
		whole = whole && actions[top]
		return keep(path)
	}
	err := datafile.Rows(ctx, r, size, sel, func(line []byte) error {
		row++
		switch {
		case len(line) > len("{}"):
		case whole:
			return fmt.Errorf("row %d: %w", row, errNoAction)
		default:
			return nil
		}
		if what != tables.AllActions {
			return yield(line) // whoever parses it refuses a second action
		}
		if err := single(line); err != nil {
			return fmt.Errorf("row %d: %w", row, err)
		}
		return yield(line)
	})
	if what == tables.HeadActions && errors.Is(err, datafile.ErrNoColumns) {
		return nil // a part, or a sidecar, that holds nothing but files
	}
	return err
}

var (
	errTwoActions = errors.New("holds more than one action")
	errNoAction   = errors.New("holds no action")
)

// single checks that a row has one action: its only top-level value ends the line.
func single(line []byte) error {
	depth, quoted := 0, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case c == ',' && depth == 1:
			return errTwoActions
		}
	}
	return nil
}

// maxLine bounds a line of a JSON checkpoint.
const maxLine = 256 << 20

// ReadJSON is Read for a V2 checkpoint in JSON form. Lines are yielded as they
// stand; empty ones are skipped. Whether a line is valid JSON is for its parser to say.
func ReadJSON(ctx context.Context, r io.Reader, yield func(line []byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for n := 0; lines.Scan(); n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if err := yield(line); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read checkpoint lines: %w", err)
	}
	return nil
}
