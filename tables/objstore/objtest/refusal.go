package objtest

import (
	"errors"
	"strings"

	"github.com/txcoord/txcoord/tables/objstore"
)

// Refuses holds each operation of a store that refuses everything to saying why, by a
// reason of objstore, and what to do about it. None of it may look like an answer about the
// object: who takes a bucket that is gone for objects that are gone gives them up.
func Refuses(t T, s objstore.Conditional, reason error, says ...string) {
	t.Helper()
	_, _, getErr := s.Get(t.Context(), "k", objstore.Range{})
	_, _, rangeErr := s.Get(t.Context(), "k", objstore.Range{Offset: -4})
	_, statErr := s.Stat(t.Context(), "k")
	_, ifErr := s.PutIf(t.Context(), "k", []byte("v"), objstore.IfETag("1"))
	var listErr error
	for _, err := range s.List(t.Context(), objstore.ListOptions{Prefix: "k"}) {
		listErr = err
	}
	for what, err := range map[string]error{
		"get": getErr, "get a range": rangeErr, "stat": statErr, "list": listErr, "delete": s.Delete(t.Context(), "k"),
		"put if absent": s.PutIfAbsent(t.Context(), "k", []byte("v")), "put": s.Put(t.Context(), "k", []byte("v")), "replace": ifErr,
	} {
		refusal, ok := errors.AsType[*objstore.Refusal](err)
		if !ok || !errors.Is(err, reason) {
			t.Errorf("%s: %v is not told as %q", what, err, reason)
			continue
		}
		for _, answer := range []error{objstore.ErrNotFound, objstore.ErrExists, objstore.ErrChanged} {
			if errors.Is(err, answer) {
				t.Errorf("%s: %v is told as %q", what, err, answer)
			}
		}
		told := refusal.Text + "; " + refusal.Remedy
		for _, say := range says {
			if !strings.Contains(told, say) {
				t.Errorf("%s: %q does not say %q", what, told, say)
			}
		}
		if strings.Contains(told, refusal.Err.Error()) {
			t.Errorf("%s: %q has the driver's own words", what, told)
		}
	}
}
