package datafile_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/tables/datafile"
)

// A partition value that path, caller and file do not agree about is refused: what
// stands in the log is what readers see.
func TestPartitionValuesAgree(t *testing.T) {
	day := func(d int) any { return time.Date(2026, 2, d, 0, 0, 0, 0, time.UTC) }
	for name, c := range map[string]struct {
		typ    string
		path   string
		given  *string
		values []any // of the partition column in the file; nil if it has none
		says   string
	}{
		"path and caller":            {"date", "p=2026-02-01/f", ptr("2026-09-09"), nil, `its path says "2026-02-01", and the partition value given is "2026-09-09"`},
		"path and null":              {"date", "p=2026-02-01/f", ptr(""), nil, "given is null"},
		"null in the path":           {"string", "p=__HIVE_DEFAULT_PARTITION__/f", ptr("x"), nil, `says null, and the partition value given is "x"`},
		"one number, two ways":       {"long", "p=01/f", ptr("1"), nil, ""},
		"one decimal, two ways":      {"decimal(5,2)", "p=1.50/f", ptr("1.5"), nil, ""},
		"one float, two ways":        {"double", "p=1e1/f", ptr("10"), nil, ""},
		"texts are not numbers":      {"string", "p=01/f", ptr("1"), nil, "its path says"},
		"file of that day":           {"date", "p=2026-02-01/f", nil, []any{day(1), day(1)}, ""},
		"file of another day":        {"date", "p=2026-02-01/f", nil, []any{day(2), day(2)}, `holds "2026-02-02" in it, and the partition value is "2026-02-01"`},
		"file of several days":       {"date", "f", ptr("2026-02-02"), []any{day(1), day(3)}, `"2026-02-01" to "2026-02-03"`},
		"file with nulls says less":  {"date", "f", ptr("2026-02-01"), []any{day(2), nil}, ""},
		"null, and the file has one": {"date", "f", ptr(""), []any{day(2)}, "the partition value is null"},
		"number":                     {"long", "f", ptr("7"), []any{8}, "holds 8 in it"},
		"same number":                {"long", "f", ptr("07"), []any{7}, ""},
		"decimal":                    {"decimal(5,2)", "f", ptr("1.5"), []any{"1.50"}, ""},
		"other decimal":              {"decimal(5,2)", "f", ptr("1.5"), []any{"1.51"}, "holds 1.51 in it"},
		"text":                       {"string", "f", ptr("eu-west"), []any{"eu"}, `holds "eu" in it`},
		"same text":                  {"string", "f", ptr("eu"), []any{"eu", "eu"}, ""},
		"instants depend on a zone":  {"timestamp", "f", ptr("2026-02-01 00:00:00"), []any{day(2)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			columns := []datafile.Column{{Name: "a", Type: "long", Nullable: true}, {Name: "p", Type: c.typ, Nullable: true}}
			table := newTable(t, datafile.SchemaString(columns), []string{"p"}, nil)
			var rows [][]any
			for _, v := range c.values {
				rows = append(rows, []any{1, v})
			}
			if c.values == nil {
				columns, rows = columns[:1], [][]any{{1}}
			}
			_, f := written(t, columns, datafile.WriteOptions{Modified: modified}, rows...)
			given := map[string]*string{}
			if c.given != nil {
				given["p"] = c.given
			}
			_, err := table.Add(f, c.path, given)
			var fit *datafile.FitError
			switch {
			case c.says == "" && err != nil:
				t.Error(err)
			case c.says != "" && (!errors.As(err, &fit) || fit.Column != "p" || !strings.Contains(err.Error(), c.says)):
				t.Errorf("got %v, want %q in it", err, c.says)
			}
		})
	}
}
