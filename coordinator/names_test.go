package coordinator_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// notLines are no texts of one line.
var notLines = map[string]string{
	"tab": "a\tb", "line end": "a\nb", "carriage return": "a\rb", "NUL": "a\x00b", "escape": "\x1b[2Jb", "delete": "a\x7fb", "C1": "a\u009bb",
	"line separator": "a\u2028b", "embedding": "a\u202ab", "override": "a\u202eb", "isolate": "a\u2066b", "end of an isolate": "a\u2069b",
	"not UTF-8": "a\xffb", "overlong slash": "a\xc0\xafb", "overlong NUL": "a\xc0\x80b", "half a surrogate": "a\xed\xa0\x80b",
}

func TestTextsAreCheckedAtTheEntrance(t *testing.T) {
	t.Parallel()
	w := inputWorld(t)
	w.must(second(w.catalog.Tag(w.ctx(), "good", w.catalog.Shown())))
	open := w.begin("open")
	w.settle()
	for what, s := range notLines {
		for entrance, call := range map[string]func() error{
			"name": func() error {
				_, _, err := w.catalog.Create(w.ctx(), coordinator.CreateRequest{Name: s, URI: w.uri("new"), Schema: schema})
				return err
			},
			"name ": func() error {
				_, _, err := w.catalog.Register(w.ctx(), coordinator.RegisterRequest{Name: s, URI: w.uri("plain")})
				return err
			},
			"name  ": func() error {
				part := w.creating("x")
				part.Table, part.Create.URI = s, w.uri("new")
				return second(w.try("k", part))
			},
			"key":  func() error { return second(w.try(s, blind("plain", "1"))) },
			"key ": func() error { return second(w.catalog.Begin(w.ctx(), coordinator.BeginRequest{Key: s})) },
			"tag":  func() error { return second(w.catalog.Tag(w.ctx(), s, w.catalog.Shown())) },
			"tag ": func() error { return second(w.catalog.Tag(w.ctx(), s, 0)) },
			"note": func() error {
				_, _, err := w.catalog.Lease(w.ctx(), coordinator.LeaseRequest{Note: s})
				return err
			},
			"reason": func() error { return second(w.catalog.Abort(w.ctx(), coordinator.OutcomeRef{Token: open.Token}, s)) },
			"reason ": func() error {
				return second(w.catalog.Resolve(w.ctx(), coordinator.ResolveRequest{Table: "plain", Reason: s}))
			},
		} {
			w.unchangedNow(what+" in "+entrance, func() {
				own := wantReason(t, what+" in "+entrance, call(), coordinator.InvalidRequest)
				if own.Field == nil || own.Field.Field != strings.TrimSpace(entrance) || own.Field.Remedy == "" {
					t.Errorf("%s in %s: %+v", what, entrance, own)
				}
			})
		}
	}
}

func TestNamesThatAreRefused(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	long := strings.Repeat("n", 256)
	for _, name := range []string{"", " ", ".", "..", "*", "a*", "a/b", "/", `a\b`, " a", "a ", "\u00a0a", "a\u3000", "s3://b/t", "file:x", "t-0123456789abcdef", "\ufffd", long} {
		_, _, err := w.catalog.Create(w.ctx(), coordinator.CreateRequest{Name: name, URI: w.uri("t"), Schema: schema})
		own := wantReason(t, fmt.Sprintf("%q", name), err, coordinator.InvalidRequest)
		if own.Field == nil || own.Field.Field != "name" || len(own.Message) > 1024 {
			t.Errorf("%q: %+v", name, own)
		}
	}
	for i, name := range []string{"a", "a.b", "...", "größe", "gro\u0308ße", "日本", "טבלה", "جدول", "10‰", "a b", "a-b_c:d", long[:255]} {
		_, _, err := w.catalog.Create(w.ctx(), coordinator.CreateRequest{Name: name, URI: w.uri(fmt.Sprint("t", i)), Schema: schema})
		if err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, tag := range []string{"", " ", " a", "a\u2003", long} {
		own := wantReason(t, fmt.Sprintf("tag %q", tag), second(w.catalog.Tag(w.ctx(), tag, w.catalog.Shown())), coordinator.InvalidRequest)
		if own.Field == nil || own.Field.Field != "tag" {
			t.Errorf("%q: %+v", tag, own)
		}
	}
	if _, err := w.catalog.Tag(w.ctx(), "v1.0/*", w.catalog.Shown()); err != nil {
		t.Error(err)
	}
}

// A catalog from before a rule opens, its tables and tags go on under the names that
// they have, and can be taken away.
func TestOldNamesGoOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	info := w.create("t", twophase.ModeExclusive)
	if err := w.catalog.Release(w.ctx(), "t", false); err != nil {
		t.Fatal(err)
	}
	name, tag := "../a\tb", "line\nend "
	w.must(
		w.catalog.Append(w.ctx(), &twophase.Registered{Table: "t-0000000000000001", Name: name, URI: info.URI, MetaDataID: info.MetaDataID, Mode: twophase.ModeExclusive, Version: 0, Identity: twophase.HashOf([]byte(w.read("t", 0)))}),
		w.catalog.Append(w.ctx(), &twophase.Tagged{Name: tag, Snapshot: w.catalog.Shown()}),
	)
	w.must(os.MkdirAll(w.path("t/_delta_log/_txcoord"), 0o777), os.WriteFile(w.path("t/_delta_log/_txcoord/owner.json"),
		fmt.Appendf(nil, `{"format":1,"catalog":%q,"incarnation":%q,"table":"t-0000000000000001"}`, w.meta().Catalog, w.meta().Incarnation), 0o666))
	w.restart()
	w.commit("1", blind(name, "1"))
	w.commit("2", blind("t-0000000000000001", "2"))
	if w.versions("t") != 3 {
		t.Errorf("%d versions", w.versions("t"))
	}
	w.must(second(w.catalog.Tag(w.ctx(), tag, 0)), w.catalog.Release(w.ctx(), name, false))
	wantReason(t, "again", second(w.catalog.Tag(w.ctx(), tag, w.catalog.Shown())), coordinator.InvalidRequest)
	_, _, err := w.catalog.Register(w.ctx(), coordinator.RegisterRequest{Name: name, URI: info.URI})
	wantReason(t, "again", err, coordinator.InvalidRequest)
}
