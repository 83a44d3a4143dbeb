package linear

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// attempt is one transaction id of a key. A transaction without a key is a key of its
// own, by its id, with one attempt.
type attempt struct {
	key string
	n   uint32
}

// operation is a call of which the model knows what it may do. Exactly one of its
// fields besides the times is set.
type operation struct {
	client       int
	began, ended int64
	of           attempt

	// tries: the call decides the attempt if nothing has. Its answer is in told; none of
	// it, and the call may take effect, to the one or the other end, at any later time.
	tries verdict
	told  verdict
	// sees are states that the answer shows, without changing any.
	sees map[uint32]verdict
	// refused says why a commit was not even tried.
	refused txcoordv1.ErrorReason
}

// verdict is what is decided of an attempt.
type verdict byte

const (
	nothing   verdict = 0
	undecided verdict = '?'
	committed verdict = 'C'
	aborted   verdict = 'A'
)

func (v verdict) String() string {
	return map[verdict]string{nothing: "no answer", undecided: "undecided", committed: "COMMITTED", aborted: "ABORTED"}[v]
}

// stamp is a value that an answer named, of something that only grows. old: it was
// there by then, and more may have been.
type stamp struct {
	began, ended int64
	value        uint64
	old          bool
	what         string
}

// reading is what calls say.
type reading struct {
	fresh     bool
	ids       map[string]attempt // by transaction id
	tokens    map[string]attempt
	ops       []operation
	pending   map[attempt]map[verdict]bool
	decisions map[attempt]*stamp // began at the first commit, ended by the first answer
	snapshots []stamp
	unread    []string
}

// read takes calls in the order in which they ended. fresh: a call that only asks is
// answered from the newest state, as one server does.
func read(calls []Call, fresh bool) *reading {
	r := &reading{
		fresh: fresh, ids: map[string]attempt{}, tokens: map[string]attempt{},
		pending: map[attempt]map[verdict]bool{}, decisions: map[attempt]*stamp{},
	}
	for _, c := range calls {
		r.names(c)
	}
	byBegin := slices.Clone(calls)
	slices.SortStableFunc(byBegin, func(a, b Call) int { return cmp.Compare(a.Began, b.Began) })
	for _, c := range byBegin {
		r.call(c)
	}
	return r
}

// names learns which attempt a token, or an id, stands for.
func (r *reading) names(c Call) {
	switch a := c.Answer.(type) {
	case *txcoordv1.BeginResponse:
		q := c.Request.(*txcoordv1.BeginRequest)
		of := attempt{q.GetKey(), a.GetAttempt()}
		if q.GetKey() == "" {
			of = attempt{"id " + a.GetTransactionId(), 1}
		}
		if was, ok := r.tokens[q.GetToken()]; ok && q.GetToken() != "" {
			of = was
		}
		r.tokens[a.GetToken()], r.ids[a.GetTransactionId()] = of, of
	case *txcoordv1.CommitOnceResponse:
		of := ofOnce(c.Request.(*txcoordv1.CommitOnceRequest))
		r.tokens[a.GetToken()], r.ids[a.GetOutcome().GetTransactionId()] = of, of
	}
}

func ofOnce(q *txcoordv1.CommitOnceRequest) attempt {
	return attempt{q.GetKey(), max(1, q.GetAttempt())}
}

func (r *reading) call(c Call) {
	if a, ok := c.Answer.(interface{ GetLatestSnapshot() uint64 }); ok && r.fresh {
		r.snapshots = append(r.snapshots, stamp{began: c.Began, ended: c.Ended, value: a.GetLatestSnapshot(), what: fmt.Sprintf("the newest snapshot, by %T,", c.Answer)})
	}
	switch q := c.Request.(type) {
	case *txcoordv1.BeginRequest:
		r.begin(c, q)
	case *txcoordv1.CommitRequest:
		r.decides(c, r.tokens[q.GetToken()], committed)
	case *txcoordv1.CommitOnceRequest:
		r.decides(c, ofOnce(q), committed)
	case *txcoordv1.AbortRequest:
		of, ok := r.tokens[q.GetToken()]
		if !ok {
			of = r.ids[q.GetTransactionId()]
		}
		r.decides(c, of, aborted)
	case *txcoordv1.GetOutcomeRequest:
		r.outcome(c, q)
	}
}

// begin shows what is decided of attempts up to the begun one.
func (r *reading) begin(c Call, q *txcoordv1.BeginRequest) {
	a, ok := c.Answer.(*txcoordv1.BeginResponse)
	if !ok || q.GetKey() == "" {
		return
	}
	op := r.operation(c, attempt{q.GetKey(), a.GetAttempt()})
	op.sees = map[uint32]verdict{}
	for n := uint32(1); r.fresh && n <= a.GetAttempt(); n++ {
		op.sees[n] = undecided
	}
	for _, o := range a.GetKnown() {
		op.sees[o.GetAttempt()] = verdictOf(o)
		r.decided(c, attempt{q.GetKey(), o.GetAttempt()}, o)
	}
	r.ops = append(r.ops, op)
}

func (r *reading) outcome(c Call, q *txcoordv1.GetOutcomeRequest) {
	of, ok := r.tokens[q.GetToken()]
	if !ok {
		of, ok = r.ids[q.GetTransactionId()]
	}
	if q.GetResolve() && ok {
		r.decides(c, of, aborted)
		return
	}
	a, answered := c.Answer.(*txcoordv1.GetOutcomeResponse)
	if !answered {
		return
	}
	o := a.GetOutcome()
	if !ok {
		if of, ok = r.ids[o.GetTransactionId()]; !ok {
			return
		}
	}
	if v := verdictOf(o); v != undecided || r.fresh {
		op := r.operation(c, of)
		op.sees = map[uint32]verdict{of.n: v}
		r.ops = append(r.ops, op)
		r.decided(c, of, o)
	}
}

// decides is a call that makes an end of an attempt.
func (r *reading) decides(c Call, of attempt, tries verdict) {
	if of == (attempt{}) {
		r.unread = append(r.unread, fmt.Sprintf("%T of a transaction that nobody began", c.Request))
		return
	}
	if tries == committed && r.decisions[of] == nil {
		r.decisions[of] = &stamp{began: c.Began, ended: forever, what: fmt.Sprintf("%s, attempt %d", of.key, of.n)}
	}
	op := r.operation(c, of)
	op.tries = tries
	reason, unreached := refusal(c.Err)
	switch {
	case c.Err == nil:
		o := c.Answer.(interface{ GetOutcome() *txcoordv1.Outcome }).GetOutcome()
		op.told = verdictOf(o)
		r.decided(c, of, o)
	case unreached:
		return
	case reason == txcoordv1.ErrorReason_ERROR_REASON_CONFLICT, reason == txcoordv1.ErrorReason_ERROR_REASON_EXPIRED,
		reason == txcoordv1.ErrorReason_ERROR_REASON_ABORTED:
		op.told = aborted
	case reason == txcoordv1.ErrorReason_ERROR_REASON_OTHER_DIGESTS:
		op.tries, op.sees = nothing, map[uint32]verdict{of.n: committed}
	case definite(c.Err):
		op.tries, op.refused = nothing, reason
	case r.pending[of][tries]:
		return // a call like it is under way for ever already
	default:
		op.ended = forever
		if r.pending[of] == nil {
			r.pending[of] = map[verdict]bool{}
		}
		r.pending[of][tries] = true
	}
	r.ops = append(r.ops, op)
}

func (r *reading) operation(c Call, of attempt) operation {
	return operation{client: c.Client, began: c.Began, ended: c.Ended, of: of}
}

// decided notes where a transaction stands in the log, and in which snapshot it is.
func (r *reading) decided(c Call, of attempt, o *txcoordv1.Outcome) {
	d := r.decisions[of]
	if o.GetCommitted() == nil || d == nil {
		return
	}
	if at := o.GetCommitted().GetPosition(); d.value != 0 && d.value != at {
		r.unread = append(r.unread, fmt.Sprintf("%s is decided at position %d, and at %d", d.what, d.value, at))
	} else {
		d.value = at
	}
	d.ended = min(d.ended, c.Ended)
	if v := o.GetCommitted().GetSnapshotVersion(); v > 0 && r.fresh {
		r.snapshots = append(r.snapshots, stamp{began: c.Began, ended: c.Ended, value: v, old: true, what: "the snapshot of " + d.what})
	}
}

func verdictOf(o *txcoordv1.Outcome) verdict {
	switch {
	case o.GetCommitted() != nil:
		return committed
	case o.GetAborted() != nil:
		return aborted
	}
	return undecided
}

// refusal is an error's reason. unreached: the call got to no server.
func refusal(err error) (reason txcoordv1.ErrorReason, unreached bool) {
	s := status.Convert(err)
	for _, d := range s.Details() {
		if i, ok := d.(*errdetails.ErrorInfo); ok {
			return txcoordv1.ErrorReason(txcoordv1.ErrorReason_value["ERROR_REASON_"+i.GetReason()]), false
		}
	}
	return 0, s.Code() == codes.Unavailable && strings.Contains(s.Message(), "Error while dialing")
}

// definite reports whether a call has had no effect, and will have none.
func definite(err error) bool {
	return slices.Contains([]codes.Code{
		codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition, codes.OutOfRange, codes.ResourceExhausted,
		codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented,
	}, status.Code(err))
}
