package datafile

import (
	"fmt"
	"slices"
	"strings"
)

// FitError says which column of which file does not fit its table.
type FitError struct {
	// File is the path as it was given; Column a dotted path by the table's names,
	// or by the file's where the table has no such column.
	File, Column string
	Reason       string
}

func (e *FitError) Error() string {
	return fmt.Sprintf("%s: column %s: %s", e.File, e.Column, e.Reason)
}

// fitter compares a file's columns with a table's.
type fitter struct {
	path string
	file File
}

func (x fitter) misfit(column, format string, args ...any) error {
	return &FitError{File: x.path, Column: column, Reason: fmt.Sprintf(format, args...)}
}

// fields checks the columns of one level and returns those that the file has, in
// the table's order, by the table's names, with the file's leaves. A column that
// the file lacks reads as null. A column that the table lacks is refused: readers
// would ignore it until the day when the table gets a column of that name.
func (x fitter) fields(in string, table, file []field) ([]field, error) {
	if err := x.unambiguous(in, file); err != nil {
		return nil, err
	}
	for _, f := range file {
		if !slices.ContainsFunc(table, func(t field) bool { return t.physical == f.name }) {
			return nil, x.misfit(join(in, f.name), "the table has no such column%s", hint(table, f.name))
		}
	}
	var out []field
	for _, t := range table {
		i := slices.IndexFunc(file, func(f field) bool { return f.name == t.physical })
		if i < 0 {
			if !t.nullable {
				return nil, x.misfit(join(in, t.name), "is missing, and the table forbids nulls in it")
			}
			continue
		}
		merged, err := x.field(join(in, t.name), t, file[i])
		if err != nil {
			return nil, err
		}
		out = append(out, merged)
	}
	return out, nil
}

func (x fitter) unambiguous(in string, file []field) error {
	seen := map[string]bool{}
	for _, f := range file {
		low := strings.ToLower(f.name)
		if seen[low] {
			return x.misfit(join(in, f.name), "is there twice, upper and lower case being the same")
		}
		seen[low] = true
	}
	return nil
}

// hint names the likely cause of a column that the table does not have.
func hint(table []field, name string) string {
	for _, t := range table {
		switch {
		case t.name == name:
			return fmt.Sprintf(": under column mapping files have to call it %s", t.physical)
		case strings.EqualFold(t.physical, name):
			return fmt.Sprintf(", but %s", t.physical)
		}
	}
	return ""
}

func (x fitter) field(at string, table, file field) (field, error) {
	merged := table
	merged.leaf = file.leaf
	if !table.nullable && !x.file.noNulls(file) {
		return merged, x.misfit(at, "the table forbids nulls in it, and the file's footer does not rule them out")
	}
	var err error
	merged.typ, err = x.dataType(at, table.typ, file.typ)
	return merged, err
}

func (x fitter) dataType(at string, table, file dataType) (dataType, error) {
	wrong := table.name != file.name && !carries(table, file)
	if wrong || len(table.parts) != len(file.parts) {
		return table, x.misfit(at, "is %s in the file and %s in the table", file.name, table.name)
	}
	out := dataType{name: table.name}
	if table.name == "struct" {
		var err error
		out.fields, err = x.fields(at, table.fields, file.fields)
		return out, err
	}
	for i, part := range table.parts {
		merged, err := x.field(join(at, part.name), part, file.parts[i])
		if err != nil {
			return out, err
		}
		out.parts = append(out.parts, merged)
	}
	return out, nil
}

// carries: file types that every reader takes for another type of the table. The
// small integers share one physical type, and a variant is a group of two.
func carries(table, file dataType) bool {
	switch table.name {
	case "short":
		return file.name == "byte"
	case "integer":
		return file.name == "byte" || file.name == "short"
	case "variant":
		has := func(name string) bool {
			return slices.ContainsFunc(file.fields, func(f field) bool { return f.name == name })
		}
		return file.name == "struct" && has("metadata") && has("value")
	}
	return false
}
