package tables

import (
	"fmt"
	"maps"
	"reflect"

	"github.com/google/go-cmp/cmp"
)

// ViewDiff says in what two views differ; empty if in nothing.
func ViewDiff(a, b *View) string {
	if !reflect.DeepEqual(a.def, b.def) {
		return fmt.Sprintf("%+v\n%+v", a.def, b.def)
	}
	if !maps.Equal(a.apps, b.apps) {
		return cmp.Diff(a.apps, b.apps)
	}
	if a.count() != b.count() {
		return cmp.Diff(a.count(), b.count())
	}
	return cmp.Diff(a.files.pairs(), b.files.pairs(), cmp.AllowUnexported(pair{}))
}

func (s *viewFiles) pairs() map[pair]bool {
	out := map[pair]bool{}
	plain := s.plain
	plain.merge()
	for _, p := range plain.sorted {
		out[pair{path: p}] = true
	}
	for p, dv := range s.rest.all {
		out[pair{p, dv}] = true
	}
	return out
}

// Told is a profile as its protocol and metadata say it, whatever their texts are: those of
// a checkpoint's columns are written anew.
func (p *Profile) Told() *Profile {
	if p == nil {
		return nil
	}
	out := *p
	out.Protocol.Raw, out.MetaData.Raw = nil, nil
	return &out
}

// Told is a tail with its profile as it is told.
func (t *Tail) Told() *Tail {
	out := *t
	out.profile = t.profile.Told()
	return &out
}

// IsExtract reports whether bytes are taken for an extract.
func IsExtract(b []byte) bool {
	_, err := decodeExtract(b)
	return err == nil
}
