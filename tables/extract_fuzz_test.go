package tables_test

import (
	"bytes"
	"crypto/sha256"
	"testing"
	"time"

	"github.com/txcoord/txcoord/tables"
)

// signed puts the digest behind the bytes that an extract is made of.
func signed(body []byte) []byte {
	sum := sha256.Sum256(body)
	return append(bytes.Clone(body), sum[:]...)
}

// FuzzExtract: whatever a build that is not ours has written and signed is read within bounds,
// or refused; what is believed of it loads or is passed over, and a renewal goes on from it or
// makes another one.
func FuzzExtract(f *testing.F) {
	k := newKept(f)
	k.commit(featureProtocol([]string{"deletionVectors"}, []string{"deletionVectors", "domainMetadata"}), metaOf(schemaJSON, nil, ""))
	s := k.shelf()
	k.commit(addLine("a"), addLine("b"), txnLine("app", -3), domainLine("d"))
	k.foreignCheckpoint(s)
	k.commit(removedAt("b", time.Hour), addLine("d", vector("v1")))
	k.commit(metaOf(schemaJSON, nil, `"x":"y"`))
	if _, err := k.log.RenewExtract(f.Context(), tables.Latest, tables.Renewal{MaxBytes: 1 << 20}); err != nil || s.b == nil {
		f.Fatalf("no extract: %v", err)
	}
	body := s.b[:len(s.b)-sha256.Size]
	f.Add(body)
	for _, n := range []int{20, len(body) / 2, len(body) - 9} {
		f.Add(body[:n])
	}
	huge := bytes.Clone(body)
	copy(huge[len(huge)-26:], bytes.Repeat([]byte{0xff}, 9))
	f.Add(huge)
	f.Add(bytes.Replace(body, []byte(`"x":"y"`), []byte(`"x" "y"`), 1)) // another build may have read it
	k.commit(addLine("e"))
	f.Fuzz(func(t *testing.T, body []byte) {
		s.b = signed(body)
		bounded(t, len(s.b), func() { tables.IsExtract(s.b) })
		_, _, err := k.log.Load(t.Context(), tables.Latest)
		readable(t, err)
		if err != nil {
			t.Errorf("an extract that says something else than the log stands in its way: %v", err)
		}
		_, err = k.log.Tail(t.Context(), tables.Latest)
		readable(t, err)
		if _, err = k.log.RenewExtract(t.Context(), tables.Latest, tables.Renewal{MaxBytes: 1 << 20}); err != nil {
			t.Errorf("or of the next one: %v", err)
		}
	})
}
