package twophase

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestTranscripts replays the schedules of RULES.md over the shipped functions: one
// file each in testdata, regenerated with -rewrite, diffs reviewed. The world is
// the simulator's, without chance: whatever happens is written down, a command a
// line. Commands that have nothing to say are not shown again.
//
//	world replicas=2 slots=8 T0 T1:exclusive     tables are registered by entry 0
//	ask R0 commit 1 T0:+f1,-f2,@3 T1:+f3         put a request into R0's queue
//	ask R0 abort 1 client                        see script.request for all kinds
//	decide R0                                    what Decide makes of the queue
//	append R0 [landed|lost|late]                 the append loop; the first put's fate
//	fold R0                                      fold to the head
//	walk R0 T0 [lookup] [giveup:1]               begin a walk
//	step R0 T0 [landed|lost|late]                carry out its effect
//	run R0 T0                                    ... until it ends
//	record R0 T0                                 ask for what the walk ended with
//	publish R0 1.0                               ask to close a round by ended walks
//	engine T0 +f9,-f1                            a foreign commit
//	late                                         the oldest write in flight lands
//	pass 11s / crash R0 / checkpoint T0 / clean T0 1 2 / drop T0 / vacate T0 [owner] / copy T0 / putback T0
//	reserved R0                                  who goes first
//	state R0 [T0] / log T0 / outcome R0 1 / decided R0 1
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			s := &script{t: t}
			datadriven.RunTest(t, f, s.do)
		})
	}
}

// script is one transcript.
type script struct {
	t     *testing.T
	w     *world
	names map[TxnID]string
	paths map[string]toyPath
	reps  []*actorless
	walks map[string]*scriptWalk
	keys  map[string]string // key of a named transaction
}

// actorless is a replica whose every move is written down.
type actorless struct {
	*replica
	queue    []Request
	what     []string // the requests, for people
	decision Decision
}

type scriptWalk struct {
	*Walk
	in  WalkInput
	end WalkEffect
	own bool // the table's own log stood there when it was last told something
}

func (s *script) do(t *testing.T, td *datadriven.TestData) (out string) {
	defer func() {
		if r := recover(); r != nil {
			v, ok := r.(*violation)
			if !ok {
				panic(r)
			}
			out += "BROKEN: " + v.String() + "\n"
		}
	}()
	if td.Cmd != "do" {
		td.Fatalf(t, "no command %q", td.Cmd)
	}
	for _, line := range strings.Split(td.Input, "\n") {
		s.t = t
		res := strings.TrimSuffix(s.line(line), "\n")
		switch {
		case res == "ok":
		case strings.Contains(res, "\n"):
			out += line + "\n    " + strings.ReplaceAll(res, "\n", "\n    ") + "\n"
		default:
			out += line + " -> " + res + "\n"
		}
	}
	return out
}

// line carries out one command.
func (s *script) line(line string) string {
	cmd, args := "", strings.Fields(line)
	if len(args) > 0 {
		cmd, args = args[0], args[1:]
	}
	f := map[string]func([]string) string{
		"world": s.world,
		"ask":   s.ask, "decide": s.decide, "append": s.append, "fold": s.fold, "walk": s.walk, "step": s.step,
		"run": s.run, "record": s.record, "publish": s.publish, "engine": s.engine, "late": s.late, "pass": s.pass,
		"reserved": s.reserved,
		"crash":    s.crash, "checkpoint": s.checkpoint, "clean": s.clean, "drop": s.drop, "copy": s.copy,
		"putback": s.putback, "vacate": s.vacate, "decided": s.decided, "state": s.state, "log": s.log, "outcome": s.outcome, "sweep": s.sweep, "lose": s.lose,
		"manifest": s.manifest, "share": s.share, "slot": s.slot, "backup": s.backup,
		"clock": s.clock, "time": s.time,
	}[cmd]
	if f == nil {
		s.t.Fatalf("no command %q", line)
	}
	return f(args)
}

// world makes a world in which nothing happens by chance.
func (s *script) world(args []string) string {
	p := profile{replicas: 2, slots: 16, facts: historyBytes, round: roundParts}
	for _, a := range args {
		key, val, isOption := strings.Cut(a, "=")
		n, _ := strconv.Atoi(val)
		switch {
		case !isOption:
			name, kind, _ := strings.Cut(a, ":")
			p.tables = append(p.tables, toyTable{name: name, exclusive: kind == "exclusive", single: kind == "single", vacant: kind == "vacant"})
		case key == "replicas":
			p.replicas = n
		case key == "slots":
			p.slots = Position(n)
		case key == "history":
			p.facts = n
		case key == "reserve":
			_, positions, _ := strings.Cut(val, "/")
			p.reserve.After, _ = strconv.Atoi(strings.TrimSuffix(val, "/"+positions))
			n, _ = strconv.Atoi(positions)
			p.reserve.Positions = Position(n)
		case key == "builds":
			p.builds = true
		}
	}
	s.w = newWorld(p, 1)
	s.names, s.paths, s.walks, s.reps, s.keys = map[TxnID]string{}, map[string]toyPath{}, map[string]*scriptWalk{}, nil, map[string]string{}
	for i := range p.replicas {
		s.reps = append(s.reps, &actorless{replica: s.w.replicas[i]})
		s.reps[i].skew, s.reps[i].build = 0, 2-i*boolToInt(p.builds)
		s.crash([]string{fmt.Sprint("R", i)})
		s.fold([]string{fmt.Sprint("R", i)})
	}
	return "ok\n"
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// clock sets a replica's wall clock ahead.
func (s *script) clock(args []string) string {
	d, err := time.ParseDuration(args[1])
	if err != nil {
		s.t.Fatal(err)
	}
	s.rep(args[0]).skew = Time(d / time.Millisecond)
	return "ok\n"
}

// time is that of the last entry, counted from that of the first.
func (s *script) time(args []string) string {
	return fmt.Sprintln(time.Duration(s.rep(args[0]).state.Time())*time.Millisecond - time.Hour)
}

func (s *script) rep(name string) *actorless {
	n, err := strconv.Atoi(strings.TrimPrefix(name, "R"))
	if err != nil || n >= len(s.reps) {
		s.t.Fatalf("no replica %q", name)
	}
	return s.reps[n]
}

func (s *script) place(name string) *simPlace {
	for _, p := range s.w.places {
		if p.name == name {
			return p
		}
	}
	s.t.Fatalf("no table %q", name)
	return nil
}

// crash loses what the process knew, and starts it again from the ring.
func (s *script) crash(args []string) string {
	r := s.rep(args[0])
	r.up, r.state, r.folded = true, s.w.emptyState(), -time.Hour
	r.sights, r.facts, r.giveUp = map[TableID]Sight{}, map[Hash]Facts{}, map[TableID]map[TxnID]bool{}
	r.queue, r.what = nil, nil
	for k := range s.walks {
		if strings.HasPrefix(k, args[0]+" ") {
			delete(s.walks, k)
		}
	}
	if e, _, err := s.w.ring.decode(s.w.ring.head(), 2); err == nil && e.Checkpoint.Object.Name != "" {
		r.state = s.w.loadCheckpoint(e.Checkpoint.Object)
	}
	return "ok\n"
}

// fold folds to the head.
func (s *script) fold(args []string) string {
	r := s.rep(args[0])
	for {
		asked := s.w.now
		res := s.w.ring.get(r.state.Next())
		switch {
		case res.Behind:
			return fmt.Sprintf("fallen behind: the ring has gone on past %d\n", r.state.Next())
		case res.Entry == nil:
			r.folded = asked
			return fmt.Sprintf("folded to %d\n", r.state.Next())
		}
		if err := s.apply(r, res.Entry); err != nil {
			return fmt.Sprintf("stopped: %v\n", err)
		}
	}
}

func (s *script) apply(r *actorless, b []byte) error {
	e, h, err := s.w.ring.decode(b, r.build)
	if err != nil {
		return err
	}
	return r.state.Apply(e, h)
}

func (s *script) decide(args []string) string {
	r := s.rep(args[0])
	r.decision = Decide(r.state, r.queue, DecideInput{Rules: toyRules{&s.w.changes}, Views: r.views(), Fetched: r.facts, Reserve: s.w.reserve})
	var b strings.Builder
	fmt.Fprintf(&b, "at %d:", r.decision.At)
	for _, rec := range r.decision.Records {
		b.WriteString(" " + s.record1(rec))
	}
	b.WriteByte('\n')
	for i, a := range r.decision.Answers {
		if !a.Recorded {
			fmt.Fprintf(&b, "%s: %s\n", r.what[i], s.answer1(a))
		}
	}
	r.queue, r.what = nil, nil
	return b.String()
}

// append carries out the append loop. The first put has the fate that is named.
func (s *script) append(args []string) string {
	r := s.rep(args[0])
	e, err := r.state.Entry(r.decision, r.clock(), args[0])
	if err != nil {
		return err.Error() + "\n"
	}
	b := encodeAs(e, s.w.builds)
	app := NewAppend(e.Position, b)
	app.weak = s.w.weak
	fate := fateOf(args)
	var out []string
	for {
		effect, pos, bytes := app.Next()
		switch effect {
		case AppendPut:
			done, refused := s.fated(fate, fmt.Sprintf("entry %d of %s", pos, args[0]), func() bool { return s.w.append(pos, bytes) })
			fate = ""
			out = append(out, "put "+fateName(done, refused))
			app.Feed(AppendResult{Done: done, Refused: refused, Unknown: !done && !refused})
		case AppendGet:
			res := s.w.ring.get(pos)
			out = append(out, "get "+getName(res))
			app.Feed(res)
		case AppendDone:
			return strings.Join(out, ", ") + s.appended(r, app) + "\n"
		}
	}
}

func (s *script) appended(r *actorless, app *Append) string {
	switch {
	case app.behind:
		return "; fallen behind"
	case app.Filled() == nil:
		return "; not written"
	}
	if err := s.apply(r, app.Filled()); err != nil {
		return "; stopped: " + err.Error()
	}
	if app.Won() {
		return fmt.Sprintf("; won %d", r.state.Next()-1)
	}
	return fmt.Sprintf("; lost %d", r.state.Next()-1)
}

func fateOf(args []string) string {
	for _, a := range args[1:] {
		if a == "landed" || a == "lost" || a == "late" {
			return a
		}
	}
	return ""
}

// fated carries out a write with a fate: done if none is named.
func (s *script) fated(fate, what string, land func() bool) (done, refused bool) {
	switch fate {
	case "landed":
		land()
	case "late":
		s.w.late = append(s.w.late, lateWrite{what: what, land: func() { land() }})
	case "":
		ok := land()
		return ok, !ok
	}
	return false, false
}

func fateName(done, refused bool) string {
	switch {
	case done:
		return "done"
	case refused:
		return "refused"
	}
	return "unknown"
}

func getName(res AppendResult) string {
	switch {
	case res.Entry != nil:
		return "filled"
	case res.Behind:
		return "passed"
	}
	return "nothing"
}

// late lets the oldest write in flight land.
func (s *script) late([]string) string {
	if len(s.w.late) == 0 {
		return "nothing is in flight\n"
	}
	l := s.w.late[0]
	s.w.late = s.w.late[1:]
	l.land()
	return l.what + " landed, if it could\n"
}

func (s *script) pass(args []string) string {
	d, err := time.ParseDuration(args[0])
	if err != nil {
		s.t.Fatal(err)
	}
	s.w.now += d
	return "ok\n"
}
