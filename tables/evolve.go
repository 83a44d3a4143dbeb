package tables

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// step says what a change of the metadata is to a writer that did not know of it.
type step uint8

const (
	// stepOther: what it wrote may be wrong.
	stepOther step = iota
	// stepAdditive: nullable columns were added, which read as null where files lack
	// them. A part that only appends, and read nothing, stays right.
	stepAdditive
	// stepHarmless: any part that does not change the metadata itself stays right.
	stepHarmless
	// stepSame: nothing that writers depend on changed.
	stepSame
)

// stepTo compares two profiles of a table that follow each other.
func (p *Profile) stepTo(next *Profile) step {
	switch {
	case p.idHash != next.idHash, p.broken != nil, next.broken != nil,
		!slices.Equal(p.MetaData.PartitionColumns, next.MetaData.PartitionColumns):
		return stepOther
	case p.look == next.look && p.config == next.config:
		return stepSame
	case !onlyEnables(p.MetaData.Configuration, next.MetaData.Configuration):
		return stepOther
	}
	return p.schema.stepTo(next.schema)
}

// stepTo: fields go by their physical paths, so a column that was renamed is another
// column to whoever knows it by name.
func (s *schema) stepTo(next *schema) step {
	for path, was := range s.nodes {
		if is, ok := next.nodes[path]; !ok || is != was {
			return stepOther
		}
	}
	if len(next.nodes) == len(s.nodes) {
		return stepHarmless
	}
	for path, is := range next.nodes {
		if _, ok := s.nodes[path]; !ok && (is.meta != "" || !is.nullable && parentIn(s, path)) {
			return stepOther
		}
	}
	return stepAdditive
}

// quietMeta is what of a field's metadata may change beside a part: the names that
// column mapping gives (another physical name is another path), the next identity
// value, and texts for people.
var quietMeta = map[string]bool{
	"delta.columnMapping.id": true, "delta.columnMapping.physicalName": true, "delta.columnMapping.nested.ids": true,
	"delta.identity.highWaterMark": true, "comment": true,
}

// writersMeta is the rest of it, in one spelling.
func writersMeta(meta map[string]json.RawMessage) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		if !quietMeta[key] {
			b.WriteString(strconv.Quote(key) + ":" + string(meta[key]) + ",")
		}
	}
	return b.String()
}

// enablements are the properties that may be switched on beside a part that does not
// know of it, because it is written anew or carries nothing that they touch: each
// says whether a change from one value to another is of that kind. Unset is "".
var enablements = map[string]func(from, to string) bool{
	propVectors:               switchesOn,
	propTimestamps:            switchesOn,
	propTimesSince:            isNew,
	propTimesFrom:             isNew,
	propRowTracking:           switchesOn,
	propRowIDColumn:           isNew,
	propRowVersionColumn:      isNew,
	propMapping:               func(from, to string) bool { return !isMapped(from) && strings.EqualFold(to, "name") },
	propMaxColumn:             rises,
	propCheckpointPolicy:      func(_, to string) bool { return strings.EqualFold(to, "v2") },
	"io.unitycatalog.tableId": isNew,
}

func switchesOn(_, to string) bool { return isTrue(to) }

func isNew(from, to string) bool { return from == "" && to != "" }

func rises(from, to string) bool {
	was, err := strconv.ParseInt(from, 10, 64)
	is, err2 := strconv.ParseInt(to, 10, 64)
	return err2 == nil && (from == "" || err == nil && is >= was)
}

// onlyEnables reports that a configuration differs from the one before by properties
// of the list alone.
func onlyEnables(was, is map[string]string) bool {
	for key := range was {
		if _, ok := is[key]; !ok {
			return false
		}
	}
	for key, to := range is {
		from, had := was[key]
		if had && from == to {
			continue
		}
		may, ok := enablements[key]
		if !ok || !may(from, to) {
			return false
		}
	}
	return true
}

// wider are the type changes that readers of widened tables take.
var wider = map[string][]string{
	"byte":    {"short", "integer", "long", "double"},
	"short":   {"integer", "long", "double"},
	"integer": {"long", "double"},
	"float":   {"double"},
	"date":    {"timestamp_ntz"},
	"void":    {"string", "long", "integer", "short", "byte", "float", "double", "boolean", "binary", "date", "timestamp", "timestamp_ntz"},
}

// wholeDigits are the digits that integers need in front of a decimal's point.
var wholeDigits = map[string]int{"byte": 10, "short": 10, "integer": 10, "long": 20}

func widens(from, to string) bool {
	if slices.Contains(wider[from], to) {
		return true
	}
	precision, scale, ok := decimalOf(to)
	if !ok {
		return false
	}
	if need, ok := wholeDigits[from]; ok {
		return precision-scale >= need
	}
	was, wasScale, ok := decimalOf(from)
	return ok && scale >= wasScale && precision-scale >= was-wasScale
}

func decimalOf(dataType string) (precision, scale int, ok bool) {
	inner, ok := strings.CutPrefix(dataType, "decimal(")
	inner, closed := strings.CutSuffix(inner, ")")
	first, second, pair := strings.Cut(inner, ",")
	precision, err := strconv.Atoi(strings.TrimSpace(first))
	scale, err2 := strconv.Atoi(strings.TrimSpace(second))
	return precision, scale, ok && closed && pair && err == nil && err2 == nil
}
