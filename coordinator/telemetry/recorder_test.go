package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/txcoord/txcoord/coordinator/telemetry"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/memstore"
	"github.com/txcoord/txcoord/twophase"
)

func newRecorder(t testing.TB, tables int) (*telemetry.Recorder, *metric.ManualReader) {
	t.Helper()
	reader := metric.NewManualReader()
	r, err := telemetry.New(telemetry.Config{
		Metrics: metric.NewMeterProvider(metric.WithReader(reader)), Traces: noop.NewTracerProvider(), Catalog: "c", Tables: tables,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r, reader
}

// life is what a transaction's life notes.
func life(ctx context.Context, r *telemetry.Recorder, id twophase.TxnID, members []telemetry.Member, txns []twophase.TxnID) {
	ctx, commit := r.Commit(ctx, id)
	_, stage := r.Stage(ctx, id, "orders")
	stage.Staged("")
	q := r.Queued(ctx)
	members[0] = telemetry.Member{Txn: id, Queued: q}
	txns[0] = id
	began := time.Time{}
	if r != nil {
		began = time.Now()
	}
	r.Appended(telemetry.Append{Position: 7, Began: began, Committed: members})
	r.Put(telemetry.Put{Table: "orders", Version: 3, Began: began, Round: "7.0", Several: true, Txns: txns, Done: true, Answer: "done"})
	r.Closed("7.0", txns, func(twophase.TxnID) twophase.SnapshotVersion { return 1 })
	r.Manifested(1, txns)
	r.Lost()
	r.Foreign("delta-rs:1.0")
	commit.Committed(telemetry.Committed, "")
}

// Where nobody looks nothing is allocated.
func TestNobodyLooking(t *testing.T) {
	var r *telemetry.Recorder
	ctx, members, txns := t.Context(), make([]telemetry.Member, 1), make([]twophase.TxnID, 1)
	if n := testing.AllocsPerRun(100, func() { life(ctx, r, twophase.TxnID{1}, members, txns) }); n != 0 {
		t.Errorf("a transaction's life makes %v allocations", n)
	}
	r.Watch(func() telemetry.State { return telemetry.State{} })
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	s := memstore.New(memstore.Config{})
	if r.Store(s) != lock.Store(s) {
		t.Error("a store is wrapped for nobody")
	}
}

// BenchmarkLife is what one transaction costs that is not traced.
func BenchmarkLife(b *testing.B) {
	r, _ := newRecorder(b, 0)
	ctx, members, txns := b.Context(), make([]telemetry.Member, 1), make([]twophase.TxnID, 1)
	untraced := trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}}))
	b.ReportAllocs()
	for i := range b.N {
		life(untraced, r, twophase.TxnID{1, byte(i), byte(i >> 8), byte(i >> 16)}, members, txns)
	}
}

// However many tables and engines there are, there are no more series than the list says.
func TestSeriesAreBounded(t *testing.T) {
	r, reader := newRecorder(t, 3)
	for i := range 100 {
		r.Put(telemetry.Put{Table: fmt.Sprint("table-", i), Round: "1.0", Txns: []twophase.TxnID{{byte(i)}}, Done: true})
		r.Foreign(fmt.Sprint("engine-", i))
	}
	for _, info := range []string{"Apache-Spark/4.0.1 Delta-Lake/4.0.0", "delta-rs:py-1.1.4", "", "Kernel-4.0.0/x"} {
		r.Foreign(info)
	}
	got := counted(t, reader)
	maps.DeleteFunc(got["txcoord.foreign.commits"], func(_ string, n int64) bool { return n == 0 }) // those that made none
	tables, engines := got["txcoord.table.versions"], got["txcoord.foreign.commits"]
	if len(tables) != 4 || tables["table-0"] != 1 || tables["other"] != 97 {
		t.Errorf("versions by table: %v", tables)
	}
	if len(engines) != 5 || engines["other"] != 100 || engines["spark"] != 1 || engines["delta-rs"] != 1 || engines["kernel"] != 1 || engines["unnamed"] != 1 {
		t.Errorf("commits by engine: %v", engines)
	}
}

// counted are the counters by the value of their label, if they have one.
func counted(t *testing.T, reader *metric.ManualReader) map[string]map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]map[string]int64{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		sum, ok := m.Data.(metricdata.Sum[int64])
		if !ok {
			continue
		}
		got[m.Name] = map[string]int64{}
		for _, p := range sum.DataPoints {
			label := ""
			for _, kv := range p.Attributes.ToSlice() {
				if kv.Key != "catalog" {
					label = kv.Value.AsString()
				}
			}
			got[m.Name][label] = p.Value
		}
	}
	return got
}

// An alert on aborts beside commits has no value where the commits' counter is not there, as where
// all of a replica's transactions were aborted since its start.
func TestCountersBeginAtNothing(t *testing.T) {
	_, reader := newRecorder(t, 3)
	got := counted(t, reader)
	for _, m := range telemetry.Metrics() {
		series := 1
		for _, l := range m.Labels {
			series *= len(l.Values) // of tables there are none yet
		}
		if m.Kind == telemetry.Counter && len(got[m.Name]) != series {
			t.Errorf("%s has %d series at the start, want %d", m.Name, len(got[m.Name]), series)
		}
		for label, n := range got[m.Name] {
			if n != 0 {
				t.Errorf("%s begins at %d for %q", m.Name, n, label)
			}
		}
	}
}

// Lines that are written within a trace name it.
func TestLogsNameTheirTrace(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(telemetry.LogHandler(slog.NewJSONHandler(&out, nil))).With("catalog", "c")
	at := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{0xab}, SpanID: trace.SpanID{0xcd}})
	log.InfoContext(trace.ContextWithSpanContext(t.Context(), at), "within")
	log.InfoContext(t.Context(), "without")
	var ids []string
	for dec := json.NewDecoder(&out); ; {
		var line struct {
			Catalog string
			Trace   string `json:"trace_id"`
			Span    string `json:"span_id"`
		}
		if err := dec.Decode(&line); err != nil {
			break
		}
		ids = append(ids, line.Catalog+" "+line.Trace+" "+line.Span)
	}
	if len(ids) != 2 || ids[0] != "c "+at.TraceID().String()+" "+at.SpanID().String() || ids[1] != "c  " {
		t.Errorf("lines say %q", ids)
	}
}

// Answers of stores are told apart as the journal tells them apart.
func TestStoreAnswers(t *testing.T) {
	r, reader := newRecorder(t, 0)
	ctx := t.Context()
	for _, err := range []error{nil, lock.ErrNotFound, lock.ErrConflict, lock.ErrUnknown, errors.New("x")} {
		_, got := r.Store(failing{err: err}).Get(ctx, "k")
		if !errors.Is(got, err) {
			t.Errorf("answers %v for %v", got, err)
		}
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if h, ok := m.Data.(metricdata.Histogram[float64]); ok && m.Name == "txcoord.store.request.duration" {
			for _, p := range h.DataPoints {
				outcome, _ := p.Attributes.Value("outcome")
				got[outcome.AsString()] += p.Count
			}
		}
	}
	for _, outcome := range []string{"ok", "not_found", "refused", "unknown", "failed"} {
		if got[outcome] != 1 {
			t.Errorf("%d requests are %s, want 1", got[outcome], outcome)
		}
	}
}

type failing struct {
	lock.Store
	err error
}

func (f failing) Get(context.Context, string) (lock.Item, error) { return lock.Item{}, f.err }
