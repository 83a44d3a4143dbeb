package coordinator_test

import (
	"strings"
	"testing"

	"github.com/txcoord/txcoord/coordinator"
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
