package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/txcoord/txcoord/twophase"
)

// Names of spans. GroupSpan is in a trace of its own, linked with the spans AppendSpan
// of the transactions that it decided; all others are in their transaction's.
const (
	CommitSpan   = "commit"
	StageSpan    = "stage"
	QueueSpan    = "queue"
	AppendSpan   = "append"
	GroupSpan    = "group append"
	PutSpan      = "put"
	PublishSpan  = "publish"
	ManifestSpan = "manifest"
)

// Attributes of spans.
const (
	TxnKey      = attribute.Key("txcoord.transaction")
	TableKey    = attribute.Key("txcoord.table")
	VersionKey  = attribute.Key("txcoord.version")
	PositionKey = attribute.Key("txcoord.position")
	SnapshotKey = attribute.Key("txcoord.snapshot")
	RoundKey    = attribute.Key("txcoord.round")
	OutcomeKey  = attribute.Key("txcoord.outcome")
	ReasonKey   = attribute.Key("txcoord.reason")
	MembersKey  = attribute.Key("txcoord.group.transactions")
)

// Work is something under way; the zero value is not looked at.
type Work struct {
	r *Recorder
	// ctx has the span that a figure is an example of, if there is one.
	ctx   context.Context
	span  trace.Span
	start time.Time
}

// begin starts a span where the caller's is sampled, or where there is none and the
// sampler decides.
func (r *Recorder) begin(ctx context.Context, name string, txn twophase.TxnID) (context.Context, Work) {
	w := Work{r: r, ctx: context.Background(), start: time.Now()}
	if at := trace.SpanContextFromContext(ctx); !at.IsValid() || at.IsSampled() {
		ctx, w.span = r.tracer.Start(ctx, name, trace.WithAttributes(TxnKey.String(txn.String()))) //nolint:spancheck // Work.end ends it
		w.ctx = ctx
	}
	return ctx, w
}

// Commit notes that a call which commits a transaction is under way.
func (r *Recorder) Commit(ctx context.Context, txn twophase.TxnID) (context.Context, Work) {
	if r == nil {
		return ctx, Work{}
	}
	return r.begin(ctx, CommitSpan, txn)
}

// Committed ends Commit. The reason is an error's name, empty if there is none.
func (w Work) Committed(o Outcome, reason string) {
	if w.r == nil {
		return
	}
	w.r.commit.record(w.ctx, time.Since(w.start).Seconds(), labels{string(o)})
	w.end(reason, OutcomeKey.String(string(o)))
}

// Stage notes that a part of a transaction is being staged.
func (r *Recorder) Stage(ctx context.Context, txn twophase.TxnID, table string) (context.Context, Work) {
	if r == nil {
		return ctx, Work{}
	}
	ctx, w := r.begin(ctx, StageSpan, txn)
	if w.span != nil {
		w.span.SetAttributes(TableKey.String(table))
	}
	return ctx, w
}

// Staged ends Stage. Parts that were refused count in no phase.
func (w Work) Staged(reason string) {
	if w.r == nil {
		return
	}
	if reason == "" {
		w.r.phases.stage.record(w.ctx, time.Since(w.start).Seconds())
	}
	w.end(reason)
}

func (w Work) end(reason string, about ...attribute.KeyValue) {
	if w.span == nil || !w.span.IsRecording() {
		return
	}
	w.span.SetAttributes(about...)
	if reason != "" {
		w.span.SetAttributes(ReasonKey.String(reason))
		w.span.SetStatus(codes.Error, reason)
	}
	w.span.End()
}

// Queued is a transaction that waits for its append.
type Queued struct {
	span  trace.SpanContext
	since time.Time
}

// Queued notes that a transaction begins to wait.
func (r *Recorder) Queued(ctx context.Context) (q Queued) {
	if r == nil {
		return q
	}
	if at := trace.SpanContextFromContext(ctx); at.IsSampled() {
		q.span = at
	}
	q.since = time.Now()
	return q
}

// Append is an append that won its position.
type Append struct {
	Position twophase.Position
	Began    time.Time
	// Committed are the transactions that it committed, Aborted the rules by which it
	// aborted others.
	Committed []Member
	Aborted   []twophase.Rule
	// Reserved counts the keys that go first from here on.
	Reserved int
}

// Member is a transaction of a group.
type Member struct {
	Txn    twophase.TxnID
	Queued Queued
}

// Lost notes that a position was another replica's.
func (r *Recorder) Lost() {
	if r != nil {
		r.lost.add(context.Background(), 1, labels{})
	}
}

// Appended notes an append. Call it before the entry is folded: what follows from it
// is noted on the transactions that it knows of.
func (r *Recorder) Appended(a Append) {
	if r == nil || len(a.Committed)+len(a.Aborted) == 0 {
		return
	}
	now, bg := time.Now(), context.Background()
	r.group.record(bg, float64(len(a.Committed)+len(a.Aborted)), labels{})
	for _, rule := range a.Aborted {
		r.aborted.add(bg, 1, labels{rule.String()})
	}
	if a.Reserved > 0 {
		r.reserved.add(bg, int64(a.Reserved), labels{})
	}
	r.committed.add(bg, int64(len(a.Committed)), labels{})
	group := r.groupSpan(a, now)
	for _, m := range a.Committed {
		at := under(m.Queued.span)
		if q := m.Queued; q.span.IsValid() {
			id := TxnKey.String(m.Txn.String())
			r.past(q.span, QueueSpan, q.since, a.Began, nil, id)
			r.past(q.span, AppendSpan, a.Began, now, []trace.Link{{SpanContext: group}}, id, PositionKey.Int64(int64(a.Position)))
		}
		r.phases.queue.record(at, a.Began.Sub(m.Queued.since).Seconds())
		r.phases.append.record(at, now.Sub(a.Began).Seconds())
		r.lives.begin(m.Txn, life{span: m.Queued.span, decided: now})
	}
}

// groupSpan is that of an append with a traced transaction in it.
func (r *Recorder) groupSpan(a Append, now time.Time) (group trace.SpanContext) {
	var links []trace.Link
	for _, m := range a.Committed {
		if m.Queued.span.IsValid() {
			links = append(links, trace.Link{SpanContext: m.Queued.span, Attributes: []attribute.KeyValue{TxnKey.String(m.Txn.String())}})
		}
	}
	if len(links) == 0 {
		return group
	}
	return r.past(group, GroupSpan, a.Began, now, links, PositionKey.Int64(int64(a.Position)), MembersKey.Int(len(a.Committed)+len(a.Aborted)))
}

// Put is a version that was put into a table's log.
type Put struct {
	Table   string
	Version twophase.Version
	Began   time.Time
	// Round is that of its transactions; Several: it writes several tables.
	Round   string
	Several bool
	Txns    []twophase.TxnID
	// Done: this put wrote it. Otherwise somebody else had, or nobody knows.
	Done bool
	// Answer is done, exists, unknown or failed.
	Answer string
}

// Put notes a put.
func (r *Recorder) Put(p Put) {
	if r == nil {
		return
	}
	now, bg := time.Now(), context.Background()
	if p.Done && len(p.Txns) > 0 {
		r.version.record(bg, float64(len(p.Txns)), labels{})
		if r.tables.most > 0 {
			r.tables.in.Add(bg, 1, r.tables.of(p.Table)...)
		}
		if p.Several {
			r.rounds.put(p.Round, now)
		}
	}
	for _, id := range p.Txns {
		if at, ok := r.lives.of(id); ok && at.span.IsValid() {
			r.past(at.span, PutSpan, p.Began, now, nil, TxnKey.String(id.String()), TableKey.String(p.Table),
				VersionKey.Int64(int64(p.Version)), RoundKey.String(p.Round), OutcomeKey.String(p.Answer))
		}
	}
}

// Closed notes that a round is closed. snapshot is asked which one shows a transaction of
// it that is traced; 0 if none does, and then nothing follows.
func (r *Recorder) Closed(round string, txns []twophase.TxnID, snapshot func(twophase.TxnID) twophase.SnapshotVersion) {
	if r == nil {
		return
	}
	now := time.Now()
	if first, ok := r.rounds.end(round); ok {
		r.torn.record(context.Background(), now.Sub(first).Seconds(), labels{})
	}
	for _, id := range txns {
		at, ok := r.lives.publish(id, now)
		if !ok {
			continue
		}
		r.phases.publish.record(under(at.span), now.Sub(at.decided).Seconds())
		if at.span.IsValid() {
			shown := snapshot(id)
			r.past(at.span, PublishSpan, at.decided, now, nil, TxnKey.String(id.String()), RoundKey.String(round), SnapshotKey.Int64(int64(shown)))
		}
	}
}

// Manifested notes that the manifest of a snapshot is durable.
func (r *Recorder) Manifested(snapshot twophase.SnapshotVersion, txns []twophase.TxnID) {
	if r == nil {
		return
	}
	now := time.Now()
	for _, id := range txns {
		at, ok := r.lives.end(id)
		if !ok || at.published.IsZero() {
			continue
		}
		r.phases.manifest.record(under(at.span), now.Sub(at.published).Seconds())
		if at.span.IsValid() {
			r.past(at.span, ManifestSpan, at.published, now, nil, TxnKey.String(id.String()), SnapshotKey.Int64(int64(snapshot)))
		}
	}
}

// QuotaExceeded notes that a call was refused for a limit of principals.
func (r *Recorder) QuotaExceeded(limit string) {
	if r != nil {
		r.refused.add(context.Background(), 1, labels{limit})
	}
}

// Foreign notes a commit of another engine.
func (r *Recorder) Foreign(engine string) {
	if r != nil {
		r.foreign.add(context.Background(), 1, labels{engineOf(engine)})
	}
}

// Collected notes that garbage of a kind has gone.
func (r *Recorder) Collected(kind string, bytes int64) {
	if r == nil {
		return
	}
	r.garbage.add(context.Background(), 1, labels{kind})
	r.garbageSize.add(context.Background(), bytes, labels{kind})
}
