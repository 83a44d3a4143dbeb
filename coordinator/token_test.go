package coordinator_test

import (
	"strings"
	"testing"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// A token that began with a dash would be a flag to every command line.
func TestTokensBeginWithALetter(t *testing.T) {
	w := newWorld(t)
	for range 50 {
		b, err := w.catalog.Begin(w.ctx(), coordinator.BeginRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(b.Token, "t") {
			t.Fatalf("token %q", b.Token)
		}
	}
	b, err := w.catalog.Begin(w.ctx(), coordinator.BeginRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.catalog.Begin(w.ctx(), coordinator.BeginRequest{Token: b.Token[1:]})
	wantReason(t, "without its first letter", err, coordinator.InvalidToken)
}

// The transaction of a call that comes no further is known by what is checked: a token that was
// altered names none, and neither does a key without an attempt.
func TestAboutCallsThatComeNoFurther(t *testing.T) {
	w := newWorld(t)
	b := w.begin("job")
	for what, ref := range map[string]coordinator.OutcomeRef{
		"its token": {Token: b.Token}, "its key": {Key: "job", Attempt: 1}, "its id": {Txn: b.Txn},
	} {
		var got coordinator.Subject
		w.catalog.About(coordinator.WithSubject(w.ctx(), &got), ref)
		if got.Txn() != b.Txn {
			t.Errorf("by %s it is %s, want %s", what, got.Txn(), b.Txn)
		}
	}
	for what, ref := range map[string]coordinator.OutcomeRef{
		"nothing": {}, "an altered token": {Token: b.Token[:len(b.Token)-2]}, "a key alone": {Key: "job"}, "no token": {Token: "t"},
	} {
		var got coordinator.Subject
		w.catalog.About(coordinator.WithSubject(w.ctx(), &got), ref)
		if got.Txn() != (twophase.TxnID{}) {
			t.Errorf("by %s it is %s", what, got.Txn())
		}
	}
}
