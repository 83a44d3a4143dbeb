package twophase

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// starve is a world in which few tables are wanted by many, jobs are run until they are
// committed, and who has lost often goes first.
func starve(p *profile) {
	p.tables = []toyTable{{name: "open"}, {name: "exclusive", exclusive: true}}
	p.reserve, p.again = Reserve{After: 2, Positions: 15}, 0.8
	p.client, p.foreign, p.operate, p.replace, p.clean, p.floor = 0.3, 0.005, 0.005, 0, 0.05, 0.002
	p.create, p.leave, p.release, p.twice, p.other, p.lose = 0, 0.01, 0, 0, 0.2, 0
}

// reservedWait is how long one waits behind a reservation at most, in the simulator.
const reservedWait = 10 * time.Second

// calmWait is how many steps that, and the record that ends it, may take in the calm: the
// wait alone takes 200.
const calmWait = 2000

// stoodSince is when, and at which step, a replica first had somebody stand behind.
type stoodSince struct {
	at   time.Duration
	step int
}

// waitFor is a reservation that somebody stands behind.
type waitFor struct {
	key  string
	from Position
}

func (r *replica) standsBehind(q *request, b *Reservation) {
	if b == nil {
		return
	}
	if q.from.txn == q.txn() {
		q.from.stood = r.w.now
	}
	k := waitFor{b.Key, b.From}
	if _, ok := r.behind[k]; !ok {
		r.behind[k] = stoodSince{r.w.now, r.w.step}
	}
	r.w.check.counts["stands behind"]++
	if steps := r.w.step - max(r.behind[k].step, r.w.random); r.w.calm && steps > calmWait {
		r.w.fail(resolves, "R%d has a commit wait behind %s, which reserved at %d, for %d steps", r.id, b.Key, b.From, steps)
	}
}

// waits reports whether a commit of the job stands behind a key that goes first: in the
// end it is decided without anybody's help.
func (j *job) waits(w *world) bool { return j.stood > 0 && w.now-j.stood < 10*time.Second }

// waitedFor asks for the end of reservations that somebody has waited behind for long
// enough.
func (r *replica) waitedFor() []*request {
	var out []*request
	for _, res := range r.state.Reservations() {
		if since, ok := r.behind[waitFor{res.Key, res.From}]; ok && r.w.now-since.at > reservedWait {
			out = append(out, &request{Request: Request{Record: &ReservationEnded{Key: res.Key, From: res.From}}})
		}
	}
	return out
}

// stageAgain has a job do on the same tables what it wanted to do before: what it read
// it reads anew. False: that cannot be.
func (w *world) stageAgain(j *job, was *Committed, r *replica) bool {
	if was == nil {
		return false
	}
	var parts []Part
	for i := range was.Parts {
		t, ok := r.state.Table(was.Parts[i].Table)
		if !ok || t.Released || t.Recorded == NoVersion {
			return false
		}
		c := w.placeOf(t).past[t.Recorded]
		if c == nil || metaName(c.state.meta) != t.MetaDataID {
			return false
		}
		before := w.changeOf(&was.Parts[i])
		ch := &toyChange{meta: c.state.meta, dataChange: true, readsAll: before.readsAll, blind: before.blind, adds: w.newPairs(1), needsSchema: c.state.schema}
		if len(before.removes) > 0 {
			ch.removes = w.someOf(c.state.live, len(before.removes))
			ch.reads = pathsOf(ch.removes)
		}
		ch = w.newChange(ch)
		p := Part{
			Table: t.Table, MetaDataID: t.MetaDataID, Digests: []Digest{digestOf(t.Table, ch)}, Read: ReadPoint{Version: t.Recorded, Blind: ch.blind},
			Facts: ch.facts(), Shape: ch.shape(),
		}
		if ch.blind {
			p.Read.Version = 0
		}
		parts = append(parts, p)
	}
	j.commit.Parts = parts
	for _, p := range parts {
		w.stage(payloadKey{j.txn, p.Table, p.Digest()}, j.begun)
	}
	w.logf("job %s/%d is %s, begun at %d on R%d, as before: %s", j.key, j.attempt, short(j.txn), j.begun, r.id, describeParts(w, j.commit))
	return len(parts) > 0
}

// reserves is what the checker knows of reservations: it goes by the records alone.
type reserves struct {
	standing []*standing // in order
	within   []*standing // those that stand, or stood, at some place in the entry
	spans    map[TableID]*held
	now      Time // of the newest entry that is checked
}

// held is when a table was reserved: from the first that is, until nobody is any more.
type held struct {
	since, end     Position
	sinceAt, endAt Time
}

// standing is a reservation, and the keys that may go before it.
type standing struct {
	*Reserved
	from   Position
	elders []string
}

func (s *standing) reserves(id TableID) *ReservedTable {
	for i := range s.Tables {
		if s.Tables[i].Table == id {
			return &s.Tables[i]
		}
	}
	return nil
}

// reservations goes through an entry that is folded.
func (c *checker) reservations(e *Entry) {
	if c.w.weak.has(weakReservedForever) {
		return // what ends here does not end there: nobody can say who goes first
	}
	c.reserves.within = slices.Clone(c.reserves.standing)
	for i, rec := range e.Records {
		switch rec := rec.(type) {
		case *Committed:
			if c.ref.Outcome(rec.Txn).By(e, i) {
				c.overtakes(rec)
				c.endOf(rec.Key, rec.Attempt)
			}
		case *Aborted:
			if !c.ref.Outcome(rec.Txn).By(e, i) {
				continue
			}
			if slices.Contains([]Rule{RuleClient, RuleResolved, RuleExpired, RuleOperator, RuleTableReleased, RuleTableExists, RuleAppVersion, RuleAppendOnly}, rec.Rule) {
				c.endOf(rec.Key, rec.Attempt)
			} else {
				c.beaten(rec)
			}
		case *Reserved:
			c.begins(rec, e)
		case *ReservationEnded:
			c.reserves.standing = slices.DeleteFunc(c.reserves.standing, func(s *standing) bool { return s.Key == rec.Key && s.from == rec.From })
		}
	}
	c.reserves.standing = slices.DeleteFunc(c.reserves.standing, func(s *standing) bool { return s.Until <= e.Position+1 })
	for _, s := range c.reserves.standing {
		for _, t := range s.Tables {
			c.reserves.spans[t.Table].end = e.Position + 1
		}
	}
	for _, s := range c.reserves.within {
		for _, t := range s.Tables {
			c.reserves.spans[t.Table].endAt = e.Time
		}
	}
	c.reserves.now = max(c.reserves.now, e.Time)
	c.sameReservations()
}

// sameReservations compares with the fold.
func (c *checker) sameReservations() {
	var got, want []string
	for _, r := range c.ref.Reservations() {
		got = append(got, fmt.Sprint(r.Key, r.From))
	}
	for _, s := range c.reserves.standing {
		want = append(want, fmt.Sprint(s.Key, s.from))
	}
	if !slices.Equal(got, want) {
		c.w.fail(reservedFirst, "%v go first, and it should be %v", got, want)
	}
}

func (c *checker) endOf(key string, attempt uint32) {
	c.reserves.standing = slices.DeleteFunc(c.reserves.standing, func(s *standing) bool {
		ends := s.Key == key && attempt > s.Attempt
		if ends {
			c.counts["reservation ended by its key"]++
		}
		return ends
	})
}

// begins checks that a table has rested for as long as it was held up before, in
// positions and in time, and that nobody joins but while the first one stands.
func (c *checker) begins(r *Reserved, e *Entry) {
	at := e.Position
	if c.reserves.spans == nil {
		c.reserves.spans = map[TableID]*held{}
	}
	n := &standing{Reserved: r, from: at}
	for _, s := range c.reserves.standing {
		n.elders = append(n.elders, s.Key)
	}
	for _, t := range r.Tables {
		span, ok := c.reserves.spans[t.Table]
		stands := func(s *standing) bool { return s.reserves(t.Table) != nil }
		first := func(s *standing) bool { return stands(s) && s.from == span.since }
		switch {
		case ok && slices.ContainsFunc(c.reserves.within, stands): // joins
			if end := span.since + c.w.reserve.Positions; at >= end || !slices.ContainsFunc(c.reserves.within, first) {
				c.w.fail(reservedHalf, "%s is reserved since %d, and %s joins at %d", t.Table, span.since, r.Key, at)
			}
			c.counts["reservation joins"]++
			continue
		case ok && at < span.end+(span.end-span.since):
			c.w.fail(reservedHalf, "%s was reserved from %d to %d, and is again at %d", t.Table, span.since, span.end, at)
		case ok && c.reserves.now < span.endAt+max(span.endAt-span.sinceAt, 0):
			c.w.fail(reservedHalf, "%s was reserved from %d ms to %d, and is again at %d", t.Table, span.sinceAt, span.endAt, c.reserves.now)
		}
		c.reserves.spans[t.Table] = &held{since: at, end: at + 1, sinceAt: e.Time, endAt: e.Time}
	}
	c.reserves.standing = append(c.reserves.standing, n)
	c.reserves.within = append(c.reserves.within, n)
}

// overtakes checks that a commit leaves those alone that go first.
func (c *checker) overtakes(r *Committed) {
	for _, s := range c.reserves.standing {
		if s.Key == r.Key {
			c.counts["went first"]++
			return
		}
		for i := range r.Parts {
			if t := s.reserves(r.Parts[i].Table); t != nil && c.harms(t, &r.Parts[i]) {
				c.w.fail(reservedFirst, "%s of %s is decided on %s, before %s", short(r.Txn), r.Key, t.Table, s.Key)
			}
		}
		for _, id := range r.Releases {
			if s.reserves(id) != nil {
				c.w.fail(reservedFirst, "%s releases %s, before %s", short(r.Txn), id, s.Key)
			}
		}
	}
}

// harms reports whether the attempt that lost would have lost to the part, or a part
// changes what is there.
func (c *checker) harms(t *ReservedTable, p *Part) bool {
	ch := c.w.changeOf(p)
	appends := len(ch.removes) == 0 && ch.setsSchema == 0 && ch.fence == FenceKept
	return !appends || len(t.Facts) == 0 || conflictBefore(toyRules{&c.w.changes}.change(t.Facts), ch) != nil
}

// beaten checks what the attempt of a key that goes first lost to.
func (c *checker) beaten(a *Aborted) {
	for _, s := range c.reserves.standing {
		o, won := c.ref.Outcome(a.Winner), c.digests[a.Winner] // which keeps its facts
		if s.Key != a.Key || a.Attempt <= s.Attempt || o == nil || o.Commit == nil || o.Position <= s.from || slices.Contains(s.elders, won.Key) {
			continue
		}
		for i := range won.Parts {
			p := &won.Parts[i]
			if t := s.reserves(p.Table); p.Table == a.Table && t != nil && c.harms(t, p) {
				c.w.fail(reservedFirst, "%s/%d goes first since %d, and lost to %s at %d", a.Key, a.Attempt, s.from, short(a.Winner), o.Position)
			}
		}
		c.counts["went first, and lost"]++
	}
}

func tablesReserved(r *Reserved) []TableID {
	var out []TableID
	for _, t := range r.Tables {
		out = append(out, t.Table)
	}
	return out
}

// reserved is a line per reservation that a replica has folded.
func (s *script) reserved(args []string) string {
	var b strings.Builder
	for _, r := range s.rep(args[0]).state.Reservations() {
		fmt.Fprintf(&b, "%s since %d\n", s.record1(&r.Reserved), r.From)
	}
	if b.Len() == 0 {
		return "nobody goes first\n"
	}
	return b.String()
}
