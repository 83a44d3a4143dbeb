package tables_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

func TestFits(t *testing.T) {
	read := at(0, tables.ReadNothing)
	for name, c := range map[string]struct {
		table func(testing.TB) *fixture
		read  tables.ReadDeclaration
		lines []string
		want  twophase.Rule
	}{
		"an append":                  {plain0, blind, []string{addLine("x")}, twophase.RuleNone},
		"a txn alone":                {plain0, blind, []string{txnLine("a", 1)}, twophase.RuleNone},
		"a live path":                {vectored0, read, []string{addDV("a.parquet", "x")}, twophase.RulePathExists},
		"a live pair again":          {plain0, read, []string{addLine("a.parquet")}, twophase.RuleNone},
		"a live pair again, blindly": {plain0, blind, []string{addLine("a.parquet")}, twophase.RulePathExists},
		"removes what is live":       {plain0, read, []string{removeLine("a.parquet")}, twophase.RuleNone},
		"removes what is not":        {plain0, read, []string{removeLine("x")}, twophase.RulePathMissing},
		"removes another pair":       {vectored0, read, []string{removeDV("a.parquet", "x")}, twophase.RulePathMissing},
		"replaces a pair":            {vectored0, read, []string{removeLine("a.parquet"), addDV("a.parquet", "x")}, twophase.RuleNone},
		"other partition columns":    {plain0, read, []string{metaOf(schemaJSON, []string{"day"}, "")}, twophase.RuleSchema},
		"... over no files":          {plain0, read, []string{metaOf(schemaJSON, []string{"day"}, ""), removeLine("a.parquet")}, twophase.RuleNone},
		"another partitioning":       {partitioned, blind, []string{addIn("x", "2020-01-01", "eu")}, twophase.RuleNone},
	} {
		t.Run(name, func(t *testing.T) {
			f := c.table(t)
			if got := tables.NewView(f.state()).Try().Fits(f.part(c.read, c.lines...)); ruleOf(got) != c.want {
				t.Errorf("got %+v, want %v", got, c.want)
			}
		})
	}
}

// What changed between staging and decision.
func TestFitsAfterChanges(t *testing.T) {
	for name, c := range map[string]struct {
		table   func(testing.TB) *fixture
		staged  []string
		between []string
		want    twophase.Rule
	}{
		"another append":         {plain0, []string{addLine("x")}, []string{addLine("y")}, twophase.RuleNone},
		"the same path":          {plain0, []string{addLine("x")}, []string{addLine("x")}, twophase.RulePathExists},
		"app has passed":         {plain0, []string{txnLine("a", 3)}, []string{txnLine("a", 3)}, twophase.RuleAppVersion},
		"app is behind":          {plain0, []string{txnLine("a", 3)}, []string{txnLine("a", 2)}, twophase.RuleNone},
		"a property":             {plain0, []string{addLine("x")}, []string{metaOf(schemaJSON, nil, `"k":"v"`)}, twophase.RuleMetadata},
		"metadata written again": {plain0, []string{addLine("x")}, []string{metaOf(schemaJSON, nil, "")}, twophase.RuleNone},
		"a column":               {plain0, []string{addLine("x")}, []string{metaOf(moreColumns(true), nil, "")}, twophase.RuleNone},
		"a column, read":         {plain0, []string{addLine("x"), removeLine("a.parquet")}, []string{metaOf(moreColumns(true), nil, "")}, twophase.RuleMetadata},
		"a required column":      {plain0, []string{addLine("x")}, []string{metaOf(moreColumns(false), nil, "")}, twophase.RuleMetadata},
		"the partitioning":       {plain0, []string{addLine("x")}, []string{metaOf(schemaJSON, []string{"day"}, "")}, twophase.RuleSchema},
		"append-only":            {plain0, []string{removeLine("a.parquet")}, []string{metaOf(schemaJSON, nil, `"delta.appendOnly":"true"`)}, twophase.RuleAppendOnly},
		"replaced":               {plain0, []string{addLine("x")}, []string{metaWithID("other", schemaJSON, nil, "")}, twophase.RuleTableReplaced},
		"a feature, carried":     {plain0, []string{addLine("x")}, []string{featureProtocol([]string{"deletionVectors"}, []string{"appendOnly", "invariants", "deletionVectors"})}, twophase.RuleNone},
		"a feature, with duties": {plain0, []string{addLine("x")}, []string{`{"protocol":{"minReaderVersion":1,"minWriterVersion":3}}`}, twophase.RuleProtocol},
		"a feature, unsupported": {plain0, []string{addLine("x")}, []string{featureProtocol(nil, []string{"appendOnly", "invariants", "magic"})}, twophase.RuleProtocol},
		"a feature, dropped":     {plain0, []string{addLine("x")}, []string{featureProtocol(nil, []string{"appendOnly"})}, twophase.RuleProtocol},
		"a feature, both":        {plain0, []string{`{"protocol":{"minReaderVersion":1,"minWriterVersion":3}}`}, []string{featureProtocol([]string{"deletionVectors"}, []string{"appendOnly", "invariants", "deletionVectors"})}, twophase.RuleProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			f := c.table(t)
			staged, between := f.part(at(0, tables.ReadNothing), c.staged...), f.foreign(c.between...)
			applied := tables.NewView(f.state())
			rebuild, err := applied.Apply(0, between)
			if err != nil {
				t.Fatal(err)
			}
			defines := strings.Contains(strings.Join(c.between, ""), "metaData") || strings.Contains(strings.Join(c.between, ""), "protocol")
			if rebuild != defines {
				t.Errorf("rebuild: %t, want %t", rebuild, defines)
			}
			taken := tables.NewView(f.state()).Try()
			taken.Take(between)
			reread := tables.NewView(f.commit(c.between...).state()).Try()
			for where, trial := range map[string]twophase.Trial{"applied": applied.Try(), "taken": taken, "read again": reread} {
				got := trial.Fits(staged)
				want := c.want
				// From the log alone, the pair that both add is a pair written again.
				if where == "read again" && name == "the same path" {
					want = twophase.RuleNone
				}
				if where == "applied" && name == "the same path" {
					want = twophase.RuleNone
				}
				if ruleOf(got) != want {
					t.Errorf("%s: got %+v, want %v", where, got, want)
				}
			}
		})
	}
}

// A path that an undelivered change adds is taken, even for the very pair (R19).
func TestUndeliveredPaths(t *testing.T) {
	f := plain(t)
	read := at(0, tables.ReadNothing)
	v := tables.NewView(f.state())
	for n, path := range []string{"x", "y"} {
		if _, err := v.Apply(twophase.ChangeNumber(n+1), f.part(blind, addLine(path))); err != nil {
			t.Fatal(err)
		}
	}
	fits := func(path string) twophase.Rule { return ruleOf(v.Try().Fits(f.part(read, addLine(path)))) }
	if got := fits("x"); got != twophase.RulePathExists {
		t.Errorf("before delivery: %v", got)
	}
	v.Delivered(1)
	if got := fits("x"); got != twophase.RuleNone {
		t.Errorf("after delivery: %v", got)
	}
	if got := fits("y"); got != twophase.RulePathExists {
		t.Errorf("the next change: %v", got)
	}
	v.Delivered(2)
	if got := fits("y"); got != twophase.RuleNone {
		t.Errorf("after delivery of both: %v", got)
	}
}

// A trial leaves the view as it is.
func TestTrialIsATrial(t *testing.T) {
	f := plain(t)
	v := tables.NewView(f.state())
	part := f.part(at(0, tables.ReadNothing), removeLine("a.parquet"), txnLine("a", 1))
	trial := v.Try()
	trial.Take(part)
	if got := trial.Fits(part); got == nil {
		t.Error("fits twice in one trial")
	}
	if got := v.Try().Fits(part); got != nil {
		t.Errorf("another trial: %+v", got)
	}
}

// model is a table as a child would keep it.
type model struct {
	files map[string]string
	apps  map[string]int64
	fresh map[string]bool
}

func (m model) clone() model {
	out := model{map[string]string{}, map[string]int64{}, map[string]bool{}}
	for k, v := range m.files {
		out.files[k] = v
	}
	for k, v := range m.apps {
		out.apps[k] = v
	}
	for k := range m.fresh {
		out.fresh[k] = true
	}
	return out
}

// step is one change: what it adds, removes, and which apps it moves.
type step struct {
	adds, removes map[string]string
	apps          map[string]int64
	blind         bool
}

func (m model) fits(s step) bool {
	for app, v := range s.apps {
		if now, ok := m.apps[app]; ok && v <= now {
			return false
		}
	}
	for path, dv := range s.removes {
		if live, ok := m.files[path]; !ok || live != dv {
			return false
		}
	}
	for path, dv := range s.adds {
		live, ok := m.files[path]
		if !ok {
			continue
		}
		if _, removed := s.removes[path]; removed {
			continue
		}
		if live != dv || s.blind || m.fresh[path] {
			return false
		}
	}
	return true
}

func (m model) apply(s step) {
	for path := range s.removes {
		delete(m.files, path)
	}
	for path, dv := range s.adds {
		m.files[path] = dv
		m.fresh[path] = true
	}
	for app, v := range s.apps {
		m.apps[app] = v
	}
}

func (s step) lines() []string {
	var out []string
	for path, dv := range s.removes {
		if dv == "" {
			out = append(out, removeLine(path))
		} else {
			out = append(out, removeDV(path, dv))
		}
	}
	for path, dv := range s.adds {
		if dv == "" {
			out = append(out, addLine(path))
		} else {
			out = append(out, addDV(path, dv))
		}
	}
	for app, v := range s.apps {
		out = append(out, txnLine(app, v))
	}
	return out
}

func drawStep(t *rapid.T, m model) step {
	path := rapid.SampledFrom([]string{"a", "b%20c", "d/e", "f", "g"})
	dv := rapid.SampledFrom([]string{"", "", "v1", "v2"})
	s := step{adds: map[string]string{}, removes: map[string]string{}, apps: map[string]int64{}}
	s.blind = rapid.Bool().Draw(t, "blind")
	if !s.blind {
		for range rapid.IntRange(0, 2).Draw(t, "removes") {
			p := path.Draw(t, "remove")
			s.removes[p] = dv.Draw(t, "vector")
			if live, ok := m.files[p]; ok && rapid.Bool().Draw(t, "live") {
				s.removes[p] = live
			}
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "adds") {
		p := path.Draw(t, "add")
		v := dv.Draw(t, "vector")
		if removed, ok := s.removes[p]; !ok || removed != v {
			s.adds[p] = v
		}
	}
	if rapid.Bool().Draw(t, "app") || len(s.adds)+len(s.removes) == 0 {
		s.apps[rapid.SampledFrom([]string{"one", "two"}).Draw(t, "name")] = rapid.Int64Range(1, 9).Draw(t, "version")
	}
	return s
}

// View and Trial agree with a naive table, whatever the order of decisions, and
// with the log in the end.
func TestViewAgreesWithModel(t *testing.T) {
	f := vectored(t)
	profile := f.profile()
	rapid.Check(t, func(t *rapid.T) {
		g := vectored(f.t)
		v := tables.NewView(g.state())
		truth := model{map[string]string{"a.parquet": "", "b.parquet": ""}, map[string]int64{}, map[string]bool{}}
		number := twophase.ChangeNumber(0)
		for range rapid.IntRange(1, 4).Draw(t, "groups") {
			trial, guess := v.Try(), truth.clone()
			var group []twophase.Facts
			for range rapid.IntRange(1, 4).Draw(t, "candidates") {
				s := drawStep(t, guess)
				a, err := tables.ParseActions(tableURI, tables.Limits{}, text(s.lines()...))
				if err != nil {
					t.Fatal(err)
				}
				read := at(0, tables.ReadNothing)
				if s.blind {
					read = blind
				}
				facts, err := tables.PartFacts(a, profile, read)
				if err != nil {
					t.Fatal(err)
				}
				got := trial.Fits(facts)
				if (got == nil) != guess.fits(s) {
					t.Fatalf("%+v on %+v: got %+v", s, guess, got)
				}
				if got != nil {
					continue
				}
				trial.Take(facts)
				guess.apply(s)
				group = append(group, facts)
				g.commit(s.lines()...)
			}
			for _, facts := range group {
				number++
				if _, err := v.Apply(number, facts); err != nil {
					t.Fatal(err)
				}
			}
			truth = guess
			if rapid.Bool().Draw(t, "delivered") {
				v.Delivered(number)
				clear(truth.fresh)
			}
		}
		compareLog(t, g, truth)
	})
}

func compareLog(t *rapid.T, f *fixture, m model) {
	files, err := f.log.LiveFiles(f.t.Context(), tables.Latest)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, file := range files {
		got[file.Path] = file.DV
	}
	want := map[string]string{}
	for path, dv := range m.files {
		if dv != "" {
			dv = "u" + vectorName(dv) + "@1"
		}
		want[strings.ReplaceAll(path, "%20", " ")] = dv
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("log has %v, want %v", got, want)
	}
	for app, v := range m.apps {
		if now, _ := f.state().Txn(app); now != v {
			t.Fatalf("app %s is at %d, want %d", app, now, v)
		}
	}
}

// A blind part has no read point: what it was staged under stands in its facts.
func TestFitsKnowsWhatAPartWasStagedUnder(t *testing.T) {
	f := plain(t)
	staged := f.profile().Fingerprint()
	for _, c := range []struct {
		change string
		want   twophase.Rule
	}{
		{addLine("y"), twophase.RuleNone},
		{featureProtocol([]string{"deletionVectors"}, []string{"appendOnly", "invariants", "deletionVectors"}), twophase.RuleNone},
		{metaOf(moreColumns(true), nil, ""), twophase.RuleNone},
		{metaOf(moreColumns(true), nil, `"k":"v"`), twophase.RuleMetadata},
		{featureProtocol([]string{"deletionVectors"}, []string{"appendOnly", "invariants", "deletionVectors", "checkConstraints"}), twophase.RuleProtocol},
	} {
		f.commit(c.change)
		facts, err := tables.PartFactsSince(f.parse(addLine("x")), f.profile(), staged, blind)
		if err != nil {
			t.Fatal(err)
		}
		if got := tables.NewView(f.state()).Try().Fits(facts); ruleOf(got) != c.want {
			t.Errorf("after %s: got %+v, want %v", c.change, got, c.want)
		}
	}
	for _, bad := range []tables.Fingerprint{"", "x", "0-0"} {
		if _, err := tables.PartFactsSince(f.parse(addLine("x")), f.profile(), bad, blind); err == nil {
			t.Errorf("fingerprint %q is taken", bad)
		}
	}
}
