package tables_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/tables"
)

// Vectors as the protocol's own examples have them, and Delta writes them.
const (
	relativeVector = `{"storageType":"u","pathOrInlineDv":"ab^-aqEH.-t@S}K{vb[*k^","offset":4,"sizeInBytes":40,"cardinality":6}`
	inlineVector   = `{"storageType":"i","pathOrInlineDv":"wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L","sizeInBytes":40,"cardinality":6}`
	absoluteVector = `{"storageType":"p","pathOrInlineDv":"file:///mytable/deletion_vector_1.bin","offset":4,"sizeInBytes":40,"cardinality":6}`
)

func refusal(t *testing.T, line string) *tables.InputError {
	t.Helper()
	_, err := tables.ParseActions(tableURI, tables.Limits{}, text(line))
	in, ok := errors.AsType[*tables.InputError](err)
	if err != nil && !ok {
		t.Fatal(err)
	}
	return in
}

func addVector(vector string) string {
	return addLine("a", `"stats":"{\"numRecords\":10}"`, `"deletionVector":`+vector)
}

// TestVectorForm: a descriptor that readers cannot read is refused when it is staged,
// since it would make the whole table unreadable.
func TestVectorForm(t *testing.T) {
	for name, c := range map[string]struct{ of, from, to, field, reason string }{
		"storage type unknown":   {inlineVector, `"i"`, `"x"`, "storageType", "none of"},
		"storage type long":      {inlineVector, `"i"`, `"inline"`, "", "storageType"},
		"no size":                {inlineVector, `"sizeInBytes":40,`, ``, "sizeInBytes", "integer"},
		"null size":              {inlineVector, `"sizeInBytes":40`, `"sizeInBytes":null`, "sizeInBytes", "integer"},
		"size below 1":           {relativeVector, `"sizeInBytes":40`, `"sizeInBytes":-1`, "sizeInBytes", "from 1"},
		"size past 32 bits":      {relativeVector, `"sizeInBytes":40`, `"sizeInBytes":2147483648`, "sizeInBytes", "to 2147483647"},
		"no cardinality":         {inlineVector, `,"cardinality":6`, ``, "cardinality", "integer"},
		"cardinality a text":     {inlineVector, `"cardinality":6`, `"cardinality":"6"`, "cardinality", "integer"},
		"cardinality a fraction": {inlineVector, `"cardinality":6`, `"cardinality":6.5`, "cardinality", "integer"},
		"cardinality negative":   {inlineVector, `"cardinality":6`, `"cardinality":-1`, "cardinality", "from 0"},
		"cardinality 64 bits":    {inlineVector, `"cardinality":6`, `"cardinality":9223372036854775808`, "cardinality", "integer"},
		"more rows than it has":  {inlineVector, `"cardinality":6`, `"cardinality":11`, "cardinality", "numRecords is 10"},
		"offset negative":        {absoluteVector, `"offset":4`, `"offset":-4`, "offset", "from 0"},
		"offset past 32 bits":    {relativeVector, `"offset":4`, `"offset":2147483648`, "offset", "to 2147483647"},
		"inline with offset":     {inlineVector, `"sizeInBytes"`, `"offset":0,"sizeInBytes"`, "offset", "inline"},
		"inline cut off":         {inlineVector, `5=-{L`, ``, "pathOrInlineDv", "40 bytes in Z85"},
		"inline odd":             {inlineVector, `wi5b=`, `wi5b;`, "pathOrInlineDv", "Z85"},
		"inline past 32 bits":    {inlineVector, `wi5b=`, `#####`, "pathOrInlineDv", "Z85"},
		"inline other size":      {inlineVector, `"sizeInBytes":40`, `"sizeInBytes":41`, "pathOrInlineDv", "41 bytes"},
		"relative, short":        {relativeVector, `ab^-aqEH.-t@S}K{vb[*k^`, `aqEH.-t@S}K{vb[*k^`, "pathOrInlineDv", "20 characters"},
		"relative, no Z85":       {relativeVector, `vb[*k^`, `vb[*k;`, "pathOrInlineDv", "20 characters"},
		"relative, leads out":    {relativeVector, `ab^`, `../../^`, "pathOrInlineDv", "folder"},
		"relative, folder above": {relativeVector, `ab^`, `..^`, "pathOrInlineDv", "folder"},
		"absolute, a name":       {absoluteVector, `file:///mytable/`, ``, "pathOrInlineDv", "absolute"},
		"absolute, bad escape":   {absoluteVector, `mytable`, `my%zztable`, "pathOrInlineDv", "absolute"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := strings.Replace(c.of, c.from, c.to, 1)
			if bad == c.of {
				t.Fatalf("%q is not in %s", c.from, c.of)
			}
			in := refusal(t, addVector(bad))
			if in == nil {
				t.Fatalf("accepted: %s", bad)
			}
			field := strings.TrimSuffix("add.deletionVector."+c.field, ".")
			if in.Line != 1 || in.Field != field || !strings.Contains(in.Reason, c.reason) {
				t.Errorf("line %d, %s: %s; want %s: …%s…", in.Line, in.Field, in.Reason, field, c.reason)
			}
		})
	}
}

// TestVectorsTaken: what the protocol allows, and a remove of whatever vector is there.
func TestVectorsTaken(t *testing.T) {
	for _, vector := range []string{
		relativeVector, inlineVector, absoluteVector, "null",
		strings.Replace(relativeVector, "ab^", "^", 1),
		strings.Replace(relativeVector, `"offset":4,`, ``, 1),
		strings.Replace(inlineVector, `"sizeInBytes"`, `"offset":null,"maxRowIndex":9,"sizeInBytes"`, 1),
		strings.Replace(inlineVector, `"cardinality":6`, `"cardinality":10`, 1),
		strings.Replace(inlineVector, `"sizeInBytes":40`, `"sizeInBytes":38`, 1), // padded
		strings.Replace(absoluteVector, "file:///mytable/", "/mytable/a%20b/", 1),
		strings.Replace(absoluteVector, "file:///mytable/", "s3://lake/orders/", 1),
	} {
		if in := refusal(t, addVector(vector)); in != nil {
			t.Errorf("%s: %v", vector, in)
		}
		if in := refusal(t, removeLine("a", `"deletionVector":`+vector)); in != nil {
			t.Errorf("remove of %s: %v", vector, in)
		}
	}
	odd := `{"storageType":"u","pathOrInlineDv":"x","sizeInBytes":1,"cardinality":11}`
	if in := refusal(t, removeLine("a", `"deletionVector":`+odd)); in != nil {
		t.Errorf("remove of %s: %v", odd, in)
	}
	if in := refusal(t, removeLine("a", `"deletionVector":`+strings.Replace(odd, "11", `"11"`, 1))); in == nil || in.Field != "remove.deletionVector.cardinality" {
		t.Error(fmt.Sprint("remove with a cardinality that is a text: ", in))
	}
}
