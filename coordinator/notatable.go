package coordinator

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
)

// noTable says what of a table is missing at a place where the caller says that one is, if that
// is what reading its log has run into.
func noTable(ctx context.Context, p placed, err error) error {
	var bad *tables.LogError
	if !errors.As(err, &bad) || bad.Fault != tables.NotATable {
		return err
	}
	told := *bad
	told.Reason = p.lacks(ctx, bad.Reason) + "; name the folder in which the table's _delta_log is, as this server sees it, or make a table there"
	return &told
}

// lacks is found out for the message alone; empty folders are told from missing ones where there
// are folders.
func (p placed) lacks(ctx context.Context, other string) string {
	if path, local := strings.CutPrefix(p.uri, "file://"); local {
		path, err := url.PathUnescape(path)
		if err != nil {
			return other
		}
		switch info, err := os.Stat(path); {
		case errors.Is(err, fs.ErrNotExist):
			return "there is no such folder on the server's machine"
		case err == nil && !info.IsDir():
			return "there is a file, and no folder"
		}
		if _, err := os.Stat(filepath.Join(path, "_delta_log")); errors.Is(err, fs.ErrNotExist) {
			return "there is no _delta_log in the folder"
		}
		return other
	}
	switch {
	case !anything(ctx, p.log, ""):
		return "nothing lies below it"
	case !anything(ctx, p.log, "_delta_log/"):
		return "there is no _delta_log below it"
	}
	return other
}

// anything reports whether there is an object below a folder of a table, or cannot tell.
func anything(ctx context.Context, log *tables.Log, below string) bool {
	for e, err := range log.Store.List(ctx, objstore.ListOptions{Prefix: log.Key + "/" + below}) {
		return err != nil || e.Key != ""
	}
	return false
}
