package linear_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/txcoord/txcoord/e2e/linear"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// script makes calls; each ends before the next begins, unless it is told otherwise.
type script struct {
	now   int64
	calls []linear.Call
}

func (s *script) add(c linear.Call) *linear.Call {
	s.now += 10
	c.Client, c.Began, c.Ended = len(s.calls), s.now, s.now+5
	s.calls = append(s.calls, c)
	return &s.calls[len(s.calls)-1]
}

func id(key string, n uint32) string { return fmt.Sprint(key, "/", n) }

func (s *script) begin(key string, n uint32, latest uint64, known ...*txcoordv1.Outcome) *linear.Call {
	return s.add(linear.Call{
		Request: &txcoordv1.BeginRequest{Key: key, Attempt: n},
		Answer: &txcoordv1.BeginResponse{
			Token: id(key, n), TransactionId: id(key, n), Attempt: n, Known: known, LatestSnapshot: latest,
		},
	})
}

func (s *script) commit(key string, n uint32, latest uint64, o *txcoordv1.Outcome) *linear.Call {
	return s.add(linear.Call{
		Request: &txcoordv1.CommitRequest{Token: id(key, n)}, Answer: &txcoordv1.CommitResponse{Outcome: o, LatestSnapshot: latest},
	})
}

func (s *script) commitFails(key string, n uint32, code codes.Code, reason string) *linear.Call {
	return s.add(linear.Call{Request: &txcoordv1.CommitRequest{Token: id(key, n)}, Err: fail(code, reason)})
}

func (s *script) abort(key string, n uint32, latest uint64, o *txcoordv1.Outcome) *linear.Call {
	return s.add(linear.Call{
		Request: &txcoordv1.AbortRequest{Transaction: &txcoordv1.AbortRequest_Token{Token: id(key, n)}},
		Answer:  &txcoordv1.AbortResponse{Outcome: o, LatestSnapshot: latest},
	})
}

func (s *script) asks(key string, n uint32, latest uint64, o *txcoordv1.Outcome) *linear.Call {
	return s.add(linear.Call{
		Request: &txcoordv1.GetOutcomeRequest{Transaction: &txcoordv1.GetOutcomeRequest_Token{Token: id(key, n)}},
		Answer:  &txcoordv1.GetOutcomeResponse{Outcome: o, LatestSnapshot: latest},
	})
}

func (s *script) snapshot(latest uint64) *linear.Call {
	return s.add(linear.Call{Request: &txcoordv1.GetSnapshotRequest{}, Answer: &txcoordv1.GetSnapshotResponse{LatestSnapshot: latest}})
}

func fail(code codes.Code, reason string) error {
	st := status.New(code, "told by the test")
	if reason == "" {
		return st.Err()
	}
	st, err := st.WithDetails(&errdetails.ErrorInfo{Domain: "txcoord", Reason: reason})
	if err != nil {
		panic(err)
	}
	return st.Err()
}

func open(key string, n uint32) *txcoordv1.Outcome {
	return &txcoordv1.Outcome{TransactionId: id(key, n), Key: key, Attempt: n, State: &txcoordv1.Outcome_Open{Open: &txcoordv1.OpenOutcome{}}}
}

func lost(key string, n uint32) *txcoordv1.Outcome {
	return &txcoordv1.Outcome{TransactionId: id(key, n), Key: key, Attempt: n, State: &txcoordv1.Outcome_Aborted{Aborted: &txcoordv1.AbortedOutcome{}}}
}

func won(key string, n uint32, position, snapshot uint64) *txcoordv1.Outcome {
	return &txcoordv1.Outcome{TransactionId: id(key, n), Key: key, Attempt: n, State: &txcoordv1.Outcome_Committed{
		Committed: &txcoordv1.CommittedOutcome{Position: position, SnapshotVersion: snapshot},
	}}
}

// Each history, and what is said of it; nothing of the right ones.
var histories = map[string]struct {
	play func(*script)
	want string
}{
	"lost, and won by the next attempt": {func(s *script) {
		s.begin("k", 1, 3)
		s.commitFails("k", 1, codes.Aborted, "CONFLICT")
		s.begin("k", 2, 3, lost("k", 1))
		s.asks("k", 2, 3, open("k", 2))
		s.commit("k", 2, 4, won("k", 2, 9, 4))
		s.begin("k", 2, 4, lost("k", 1), won("k", 2, 9, 4))
	}, ""},
	"a lost answer that committed": {func(s *script) {
		s.begin("k", 1, 3)
		s.commitFails("k", 1, codes.Unavailable, "")
		s.asks("k", 1, 3, open("k", 1))
		s.commitFails("k", 1, codes.Unavailable, "")
		s.asks("k", 1, 4, won("k", 1, 9, 4))
		s.abort("k", 1, 4, won("k", 1, 9, 4))
	}, ""},
	"commit beside abort": {func(s *script) {
		s.begin("k", 1, 3)
		s.abort("k", 1, 3, won("k", 1, 9, 0)).Ended += 20
		s.commit("k", 1, 4, won("k", 1, 9, 4)).Ended += 20
	}, ""},
	"refused before it was tried": {func(s *script) {
		s.begin("k", 1, 3)
		s.begin("k", 2, 3)
		s.commitFails("k", 2, codes.FailedPrecondition, "ATTEMPT_UNDECIDED")
		s.commit("k", 1, 4, won("k", 1, 9, 4))
		s.commitFails("k", 2, codes.AlreadyExists, "KEY_COMMITTED")
	}, ""},
	"two in an order that no answer shows": {func(s *script) {
		s.begin("a", 1, 3)
		s.begin("b", 1, 3)
		s.commit("a", 1, 5, won("a", 1, 10, 5)).Ended += 20
		s.commit("b", 1, 5, won("b", 1, 9, 4))
	}, ""},
	"committed, then aborted": {func(s *script) {
		s.begin("k", 1, 3)
		s.commit("k", 1, 4, won("k", 1, 9, 4))
		s.abort("k", 1, 4, lost("k", 1))
	}, "no order of decisions"},
	"aborted, then committed": {func(s *script) {
		s.begin("k", 1, 3)
		s.abort("k", 1, 3, lost("k", 1))
		s.commit("k", 1, 4, won("k", 1, 9, 4))
	}, "no order of decisions"},
	"committed, then open": {func(s *script) {
		s.begin("k", 1, 3)
		s.commit("k", 1, 4, won("k", 1, 9, 4))
		s.asks("k", 1, 4, open("k", 1))
	}, "no order of decisions"},
	"a key committed twice": {func(s *script) {
		s.begin("k", 1, 3)
		s.commit("k", 1, 4, won("k", 1, 9, 4))
		s.begin("k", 2, 4, won("k", 1, 9, 4))
		s.commit("k", 2, 5, won("k", 2, 10, 5))
	}, "no order of decisions"},
	"an attempt that jumps": {func(s *script) {
		s.begin("k", 1, 3)
		s.begin("k", 2, 3)
		s.commit("k", 2, 4, won("k", 2, 9, 4))
	}, "no order of decisions"},
	"an attempt that is forgotten": {func(s *script) {
		s.begin("k", 1, 3)
		s.commitFails("k", 1, codes.Aborted, "EXPIRED")
		s.begin("k", 1, 3)
	}, "no order of decisions"},
	"committed before it was asked for": {func(s *script) {
		s.begin("k", 1, 3)
		s.asks("k", 1, 4, won("k", 1, 9, 4))
		s.commit("k", 1, 4, won("k", 1, 9, 4))
	}, "no order of decisions"},
	"refused for a commit that never was": {func(s *script) {
		s.begin("k", 2, 3)
		s.commitFails("k", 2, codes.AlreadyExists, "KEY_COMMITTED")
	}, "no order of decisions"},
	"refused for an attempt that was aborted": {func(s *script) {
		s.begin("k", 1, 3)
		s.abort("k", 1, 3, lost("k", 1))
		s.begin("k", 2, 3, lost("k", 1))
		s.commitFails("k", 2, codes.FailedPrecondition, "ATTEMPT_UNDECIDED")
	}, "no order of decisions"},
	"decided before what was known": {func(s *script) {
		s.begin("a", 1, 3)
		s.begin("b", 1, 3)
		s.commit("a", 1, 4, won("a", 1, 10, 4))
		s.commit("b", 1, 5, won("b", 1, 9, 5))
	}, "b, attempt 1 has position 9, after a, attempt 1 had 10"},
	"moved in the log": {func(s *script) {
		s.begin("k", 1, 3)
		s.commit("k", 1, 4, won("k", 1, 9, 4))
		s.commit("k", 1, 4, won("k", 1, 10, 4))
	}, "decided at position 9, and at 10"},
	"a snapshot that goes back": {func(s *script) {
		s.snapshot(7)
		s.snapshot(6)
	}, "has snapshot 6, after the newest snapshot"},
	"a snapshot without what was published": {func(s *script) {
		s.begin("k", 1, 3)
		s.commit("k", 1, 3, won("k", 1, 9, 4))
		s.snapshot(3)
	}, "has snapshot 3, after the snapshot of k, attempt 1 had 4"},
	"of nobody": {func(s *script) {
		s.commit("k", 1, 4, won("k", 1, 9, 4))
	}, "nobody began"},
}

func TestHistories(t *testing.T) {
	for name, h := range histories {
		t.Run(name, func(t *testing.T) {
			var s script
			h.play(&s)
			report, err := linear.Check(s.calls, true, time.Minute)
			if h.want == "" && err != nil || h.want != "" && (err == nil || !strings.Contains(err.Error(), h.want)) {
				t.Errorf("%s; got %v, want %q", report, err, h.want)
			}
		})
	}
}

// Several servers answer questions from what each has read so far.
func TestReplicasMayLagBehind(t *testing.T) {
	for name, h := range map[string]struct {
		play func(*script)
		ok   bool
	}{
		"an old view": {func(s *script) {
			s.begin("k", 1, 3)
			s.commit("k", 1, 4, won("k", 1, 9, 4))
			s.asks("k", 1, 3, open("k", 1))
			s.begin("k", 1, 3)
			s.snapshot(3)
		}, true},
		"another decision": {func(s *script) {
			s.begin("k", 1, 3)
			s.commit("k", 1, 4, won("k", 1, 9, 4))
			s.asks("k", 1, 3, lost("k", 1))
		}, false},
	} {
		var s script
		h.play(&s)
		if _, err := linear.Check(s.calls, false, time.Minute); (err == nil) != h.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
