package e2e_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/e2e/otlp"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// inTrace are the spans of a trace, in the order in which they began.
func inTrace(id trace.TraceID, all []*tracepb.Span) (out oneTrace) {
	for _, s := range all {
		if bytes.Equal(s.GetTraceId(), id[:]) {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b *tracepb.Span) int { return cmp.Compare(a.GetStartTimeUnixNano(), b.GetStartTimeUnixNano()) })
	return out
}

// groups are the appends that are linked with a trace.
func groups(id trace.TraceID, all []*tracepb.Span) (out oneTrace) {
	for _, s := range all {
		if s.GetName() == "group append" && slices.ContainsFunc(s.GetLinks(), func(l *tracepb.Span_Link) bool { return bytes.Equal(l.GetTraceId(), id[:]) }) {
			out = append(out, s)
		}
	}
	return out
}

type oneTrace []*tracepb.Span

// tree writes the spans below a parent, one a line, each below its own and indented; those
// of one parent by label, and of one label as they began.
func (o oneTrace) tree(b *strings.Builder, parent []byte, indent string) {
	var lines []string
	below := map[string][]byte{}
	for _, s := range o {
		if !bytes.Equal(s.GetParentSpanId(), parent) {
			continue
		}
		line := label(s)
		for below[line] != nil {
			line += " again"
		}
		lines, below[line] = append(lines, line), s.GetSpanId()
	}
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Fprintf(b, "%s%s\n", indent, line)
		o.tree(b, below[line], indent+"  ")
	}
}

// label is a span's name, with its kind or table if it has one.
func label(s *tracepb.Span) string {
	kind := map[tracepb.Span_SpanKind]string{tracepb.Span_SPAN_KIND_CLIENT: "client", tracepb.Span_SPAN_KIND_SERVER: "server"}[s.GetKind()]
	return strings.Join(slices.DeleteFunc([]string{s.GetName(), kind, attribute(s, "txcoord.table")}, func(s string) bool { return s == "" }), " ")
}

func attribute(s *tracepb.Span, key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

// named is the span of a label that the tree has once.
func (o oneTrace) named(t *testing.T, want string) *tracepb.Span {
	t.Helper()
	i := slices.IndexFunc(o, func(s *tracepb.Span) bool { return label(s) == want })
	if i < 0 {
		t.Fatalf("no span %s", want)
	}
	return o[i]
}

// instant is when a span began or ended, by the clock of the machine that all run on.
type instant struct {
	what string
	at   uint64
}

func began(s *tracepb.Span) instant { return instant{label(s) + " begins", s.GetStartTimeUnixNano()} }
func ended(s *tracepb.Span) instant { return instant{label(s) + " ends", s.GetEndTimeUnixNano()} }

// ordered fails unless instants are in order.
func ordered(t *testing.T, instants ...instant) {
	t.Helper()
	if !slices.IsSortedFunc(instants, func(a, b instant) int { return cmp.Compare(a.at, b.at) }) {
		t.Errorf("not in order: %v", instants)
	}
}

// tracing is a client process's own OpenTelemetry, which sends to a receiver.
func tracing(t *testing.T, to *otlp.Collector) *sdktrace.TracerProvider {
	t.Helper()
	exporter, err := otlptracegrpc.New(t.Context(), otlptracegrpc.WithEndpointURL(to.Endpoint))
	if err != nil {
		t.Fatal(err)
	}
	return sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter))
}

const calls = "txcoord.v1.TransactionService/"

// commitTree is what hangs below the call that commits three tables.
const commitTree = `commit
        append
        manifest
        publish
        put a
        put b
        put c
        queue
`

// One transaction over three tables, by a client that has a span of its own, to a
// `txcoord serve` that samples nothing by itself: client and server send what they noted to
// one receiver, and there it is one trace, from the client's span to the manifest.
func TestTraceAcrossProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, serverConfig{})
	received := otlp.Start(t)
	binary := filepath.Join(t.TempDir(), "txcoord")
	build(t, binary, "")
	p := startProgram(t, binary, "--warehouse", w.warehouse(), "--store", "bolt:"+filepath.Join(w.config.Dir, "store.db"),
		"--otlp-endpoint", received.Endpoint, "--trace-sample", "0")
	if p.address == "" {
		t.Fatalf("it does not serve: %s", p.said())
	}
	traces := tracing(t, received)
	c, err := client.Dial(p.address, client.Options{DialOptions: []grpc.DialOption{grpc.WithStatsHandler(
		otelgrpc.NewClientHandler(otelgrpc.WithTracerProvider(traces), otelgrpc.WithPropagators(propagation.TraceContext{})))}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	w.client = c
	for _, name := range []string{"a", "b", "c"} {
		w.create(name, txcoordv1.TableMode_TABLE_MODE_EXCLUSIVE)
	}
	tests := []struct {
		name, tree string
		commit     func(context.Context) error
		traced     trace.TraceID
	}{
		{name: "one call", commit: func(ctx context.Context) error { return commitOnce(ctx, c) }, tree: `one call
  ` + calls + `CommitOnce client
    ` + calls + `CommitOnce server
      ` + commitTree + `        stage a
        stage b
        stage c
`},
		{name: "many calls", commit: func(ctx context.Context) error { return transact(ctx, c) }, tree: `many calls
  ` + calls + `Begin client
    ` + calls + `Begin server
  ` + calls + `Commit client
    ` + calls + `Commit server
      ` + commitTree + `  ` + calls + `Stage client
    ` + calls + `Stage server
      stage a
  ` + calls + `Stage client again
    ` + calls + `Stage server
      stage b
  ` + calls + `Stage client again again
    ` + calls + `Stage server
      stage c
`},
	}
	for i := range tests {
		ctx, span := traces.Tracer("e2e").Start(w.ctx(), tests[i].name)
		if err := tests[i].commit(ctx); err != nil {
			t.Fatalf("%s: %v\n%s", tests[i].name, err, p.said())
		}
		span.End()
		tests[i].traced = span.SpanContext().TraceID()
	}
	w.settle() // all manifests are durable
	p.stop()   // it sends the rest at its end
	if err := traces.Shutdown(w.ctx()); err != nil {
		t.Fatal(err)
	}
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			all := inTrace(x.traced, received.Spans())
			var tree strings.Builder
			all.tree(&tree, nil, "")
			if diff := gocmp.Diff(x.tree, tree.String()); diff != "" {
				t.Fatalf("the trace is another tree, (-want +got):\n%s", diff)
			}
			all.inOrder(t)
			all.ofOneTransaction(t)
			linked(t, all, groups(x.traced, received.Spans()))
		})
	}
}

func commitOnce(ctx context.Context, c *client.Client) error {
	q := &txcoordv1.CommitOnceRequest{Key: "one"}
	for _, name := range []string{"a", "b", "c"} {
		q.Tables = append(q.Tables, &txcoordv1.OnceTable{
			Table: name, Read: &txcoordv1.ReadDeclaration{Point: &txcoordv1.ReadDeclaration_Blind{Blind: true}}, Actions: added("one"),
		})
	}
	_, err := c.Transactions.CommitOnce(ctx, q)
	return err
}

func transact(ctx context.Context, c *client.Client) error {
	_, err := c.Transact(ctx, "many", func(tx *client.Tx) error {
		for _, name := range []string{"a", "b", "c"} {
			if _, err := tx.Stage(ctx, name, client.Blind(), added("many")); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

func added(path string) []byte {
	return fmt.Appendf(nil, `{"add":{"path":%q,"partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}`, path)
}

// inOrder: each phase ends where the next begins, and every version is put between the
// decision and the publication.
func (o oneTrace) inOrder(t *testing.T) {
	t.Helper()
	root := o[slices.IndexFunc(o, func(s *tracepb.Span) bool { return len(s.GetParentSpanId()) == 0 })]
	commit, queue, decided := o.named(t, "commit"), o.named(t, "queue"), o.named(t, "append")
	published, manifest := o.named(t, "publish"), o.named(t, "manifest")
	ordered(t, began(root), began(commit), began(queue), ended(queue), ended(decided), ended(published), ended(manifest))
	for before, after := range map[*tracepb.Span]*tracepb.Span{queue: decided, decided: published, published: manifest} {
		if before.GetEndTimeUnixNano() != after.GetStartTimeUnixNano() {
			t.Errorf("%s ends at %d, and %s begins at %d", before.GetName(), before.GetEndTimeUnixNano(), after.GetName(), after.GetStartTimeUnixNano())
		}
	}
	for _, table := range []string{"a", "b", "c"} {
		stage, put := o.named(t, "stage "+table), o.named(t, "put "+table)
		ordered(t, began(root), began(stage), ended(stage), began(queue))
		ordered(t, ended(decided), began(put), ended(put), ended(published))
	}
}

// ofOneTransaction: each of the server's own spans names the same transaction.
func (o oneTrace) ofOneTransaction(t *testing.T) {
	t.Helper()
	id := attribute(o.named(t, "commit"), "txcoord.transaction")
	for _, s := range o {
		if got := attribute(s, "txcoord.transaction"); s.GetKind() == tracepb.Span_SPAN_KIND_INTERNAL && len(s.GetParentSpanId()) > 0 && (got == "" || got != id) {
			t.Errorf("%s is of transaction %q, the commit of %q", label(s), got, id)
		}
	}
}

// linked: the append that decided the transaction is in a trace of its own, and the two are
// linked both ways.
func linked(t *testing.T, of, groups oneTrace) {
	t.Helper()
	links := of.named(t, "append").GetLinks()
	if len(groups) != 1 || len(links) != 1 || !bytes.Equal(links[0].GetSpanId(), groups[0].GetSpanId()) || bytes.Equal(groups[0].GetTraceId(), of[0].GetTraceId()) {
		t.Errorf("the append has links %v, and there are groups %v", links, groups)
	}
}
