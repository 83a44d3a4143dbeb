package telemetry

import (
	"context"
	"maps"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/txcoord/txcoord/twophase"
)

type txnID = twophase.TxnID

// life is a transaction that this replica decided, until its manifest is durable.
type life struct {
	// span is what its spans hang on; the zero value if it is not traced.
	span               trace.SpanContext
	decided, published time.Time
}

// lives are bounded: beyond the bound transactions are decided and published as ever,
// and their last phases are not noted.
type lives struct {
	mu    sync.Mutex
	m     map[txnID]life
	swept time.Time
}

const (
	livesMost = 1 << 16
	// livesLong is after how long a transaction makes room for others: it is held up.
	livesLong  = 10 * time.Minute
	roundsMost = 1 << 10
)

func (l *lives) begin(id txnID, at life) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.m) >= livesMost && at.decided.Sub(l.swept) > time.Minute {
		l.swept = at.decided
		for id, old := range l.m {
			if at.decided.Sub(old.decided) > livesLong {
				delete(l.m, id)
			}
		}
	}
	if len(l.m) < livesMost {
		l.m[id] = at
	}
}

func (l *lives) of(id txnID) (life, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.m[id]
	return at, ok
}

// publish notes when a transaction was published. That of one which no snapshot shows is
// never ended, and makes room in time.
func (l *lives) publish(id txnID, when time.Time) (life, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.m[id]
	if !ok || !at.published.IsZero() {
		return at, false
	}
	at.published = when
	l.m[id] = at
	return at, true
}

func (l *lives) end(id txnID) (life, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.m[id]
	delete(l.m, id)
	return at, ok
}

// mark is the first put of a round.
type mark struct{ first time.Time }

type rounds struct {
	mu sync.Mutex
	m  map[string]mark
}

// put notes the first put of a round. Those that end in another way than by a
// publication of ours make room in time.
func (r *rounds) put(id string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.m[id]; ok {
		return
	}
	if len(r.m) >= roundsMost {
		maps.DeleteFunc(r.m, func(_ string, old mark) bool { return at.Sub(old.first) > livesLong })
	}
	if len(r.m) < roundsMost {
		r.m[id] = mark{at}
	}
}

func (r *rounds) end(id string) (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.m[id]
	delete(r.m, id)
	return at.first, ok
}

// under is a context in which spans and exemplars belong to a traced transaction.
func under(span trace.SpanContext) context.Context {
	if !span.IsValid() {
		return context.Background()
	}
	return trace.ContextWithSpanContext(context.Background(), span)
}

// past is a span that began and ended before it was known whose it is.
func (r *Recorder) past(parent trace.SpanContext, name string, start, end time.Time, links []trace.Link, about ...attribute.KeyValue) trace.SpanContext {
	_, span := r.tracer.Start(under(parent), name, trace.WithTimestamp(start), trace.WithLinks(links...), trace.WithAttributes(about...))
	span.End(trace.WithTimestamp(end))
	return span.SpanContext()
}
