package twophase

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ask puts a request into a replica's queue.
//
//	commit 1 T0:+f1 [begun:3] [key:k attempt:2] [digest:x] [reads:T1@3]
//	         [create:t-1=name@place,+f1] [release:T1]
//	abort 1 [client|expired|resolve] [begun:3]
//	freeze 1.0 T0 / thaw T0 / release T0 / register T0b T0 / floor 7 / tag x 2
//	reserve-end key 3
//	lease a 1 1h / renew a 1 1h / lease-end a [7200000] / cut T0 1 seen:3 snapshot:2
//	caps txns:2 bytes:100 coalesce:no / checkpoint / counted T0 1
func (s *script) ask(args []string) string {
	r := s.rep(args[0])
	var q Request
	switch args[1] {
	case "commit":
		q.Commit = s.commit(r, args[2:])
	case "abort":
		q.Abort = s.abort(args[2:])
	default:
		q.Record = s.admin(r, args[1], args[2:])
	}
	r.queue, r.what = append(r.queue, q), append(r.what, strings.Join(args[1:min(3, len(args))], " "))
	return "ok\n"
}

// txn is a named transaction: its name, or its key and attempt.
func (s *script) txn(name string) TxnID {
	key, attempt := "key-"+name, uint32(1)
	if k, n, ok := strings.Cut(name, "/"); ok {
		a, _ := strconv.Atoi(n)
		key, attempt = "key-"+k, uint32(a)
	}
	id := DeriveTxnID(simCatalog, key, attempt)
	s.names[id], s.keys[name] = name, key
	return id
}

func (s *script) name(id TxnID) string {
	if n, ok := s.names[id]; ok {
		return n
	}
	return short(id)
}

func (s *script) commit(r *actorless, args []string) *CommitRequest {
	c := &Committed{Txn: s.txn(args[0]), Key: s.keys[args[0]], Attempt: 1}
	if _, n, ok := strings.Cut(args[0], "/"); ok {
		a, _ := strconv.Atoi(n)
		c.Attempt = uint32(a)
	}
	req := &CommitRequest{Record: c, Older: map[TableID]Older{}, Walked: map[TableID][]FoundVersion{}}
	for _, a := range args[1:] {
		what, val, _ := strings.Cut(a, ":")
		n, _ := strconv.Atoi(val)
		switch what {
		case "begun":
			c.Begun = Position(n)
		case "release":
			c.Releases = append(c.Releases, TableID(val))
		case "create":
			c.Parts = append(c.Parts, s.creation(val))
			s.w.stage(payloadKey{c.Txn, c.Parts[len(c.Parts)-1].Table, c.Parts[len(c.Parts)-1].Digest()}, c.Begun)
		case "reads":
			table, v, _ := strings.Cut(val, "@")
			n, _ = strconv.Atoi(v)
			ch := s.w.newChange(&toyChange{readsAll: true})
			c.Reads = append(c.Reads, ReadPart{Table: TableID(table), Read: ReadPoint{Version: Version(n)}, Facts: ch.facts()})
		default:
			c.Parts = append(c.Parts, s.part(r, TableID(what), val))
			s.w.stage(payloadKey{c.Txn, TableID(what), c.Parts[len(c.Parts)-1].Digest()}, c.Begun)
		}
	}
	for id := range r.walkedOn(s, args) {
		req.Walked[id] = r.walkedOn(s, args)[id]
	}
	return req
}

// creation is a new table: id=name@place, and the files in version 0.
func (s *script) creation(spec string) Part {
	what, files, _ := strings.Cut(spec, ",")
	id, at, _ := strings.Cut(what, "=")
	name, place, _ := strings.Cut(at, "@")
	ch, read := s.change(files)
	s.w.nextMeta++
	ch.setsMeta, ch.setsSchema, ch.blind = s.w.nextMeta, 1, true
	return Part{
		Table: TableID(id), MetaDataID: metaName(ch.setsMeta), Digests: []Digest{digestOf(TableID(id), ch)}, Read: read,
		Facts: ch.facts(), Shape: ch.shape(), Create: &Creation{Name: name, URI: s.place(place).uri, Mode: ModeOpen},
	}
}

// walkedOn are the versions that ended walks of the replica found.
func (r *actorless) walkedOn(s *script, _ []string) map[TableID][]FoundVersion {
	out := map[TableID][]FoundVersion{}
	for key, wk := range s.walks {
		if done, ok := wk.end.(WalkDone); ok && strings.HasPrefix(key, fmt.Sprint("R", r.id, " ")) {
			out[wk.in.Table] = done.Found
		}
	}
	return out
}

// part is what a transaction does to a table: +f1 adds, -f1 removes (f1.2 is f1 with
// deletion vector 2), @3 read version 3, all reads the whole table, app1:5, schema:2,
// fence and unfence.
func (s *script) part(r *actorless, table TableID, spec string) Part {
	ch, read := s.change(spec)
	t, ok := r.state.Table(table)
	if !ok {
		s.t.Fatalf("no table %s", table)
	}
	meta, _ := strconv.Atoi(strings.TrimPrefix(t.MetaDataID, "meta-"))
	if ch.meta == 0 {
		ch.meta = meta
	}
	if len(ch.adds) > 0 && ch.needsSchema == 0 {
		ch.needsSchema = 1
	}
	ch.blind = read.Blind
	if at := s.w.stateOf(t); ch.fence != FenceKept && at != nil {
		ch.needsProtocol = at.protocol
	}
	return Part{
		Table: table, MetaDataID: metaName(ch.meta), Digests: []Digest{digestOf(table, ch)}, Read: read, Facts: ch.facts(), Shape: ch.shape(),
		Fence: ch.fence,
	}
}

func (s *script) change(spec string) (*toyChange, ReadPoint) {
	ch := s.w.newChange(&toyChange{dataChange: true})
	read := ReadPoint{Blind: true}
	for _, f := range strings.Split(spec, ",") {
		what, val, _ := strings.Cut(f, ":")
		n, _ := strconv.Atoi(val)
		switch {
		case f == "":
		case f[0] == '+':
			ch.adds = append(ch.adds, s.pair(f[1:]))
		case f[0] == '-':
			ch.removes = append(ch.removes, s.pair(f[1:]))
			ch.reads = append(ch.reads, s.pair(f[1:]).path)
		case f[0] == '@':
			v, _ := strconv.Atoi(f[1:])
			read = ReadPoint{Version: Version(v)}
		case f == "all":
			ch.readsAll = true
		case f == "stats":
			ch.dataChange = false
		case strings.HasPrefix(what, "app"):
			ch.app, _ = strconv.Atoi(what[3:])
			ch.appVersion = int64(n)
		case what == "fence":
			ch.fence = FenceRaised
		case what == "protocol":
			ch.setsProtocol = n
		case what == "unfence":
			ch.fence = FenceLifted
		case what == "schema":
			ch.setsSchema = n
		case what == "needs":
			ch.needsSchema = n
		case what == "replace":
			ch.setsMeta = n
		default:
			s.t.Fatalf("no change %q", f)
		}
	}
	return ch, read
}

func (s *script) pair(name string) toyPair {
	file, dv, _ := strings.Cut(name, ".")
	if _, ok := s.paths[file]; !ok {
		s.paths[file] = toyPath(1000 + len(s.paths))
	}
	n, _ := strconv.Atoi(dv)
	return toyPair{s.paths[file], int32(n)}
}

func (s *script) abort(args []string) *Aborted {
	a := &Aborted{Txn: s.txn(args[0]), Key: s.keys[args[0]], Attempt: 1, Rule: RuleClient}
	if _, n, ok := strings.Cut(args[0], "/"); ok {
		attempt, _ := strconv.Atoi(n)
		a.Attempt = uint32(attempt)
	}
	for _, arg := range args[1:] {
		switch what, val, _ := strings.Cut(arg, ":"); what {
		case "expired":
			a.Rule = RuleExpired
		case "resolve":
			a.Rule = RuleResolved
		case "begun":
			n, _ := strconv.Atoi(val)
			a.Begun = Position(n)
		}
	}
	return a
}

func (s *script) admin(r *actorless, kind string, args []string) Record {
	number := func(v string) int { n, _ := strconv.Atoi(v); return n }
	switch kind {
	case "freeze":
		return &Frozen{Round: s.round(args[0]), Table: TableID(args[1]), Cause: CauseStalled, Detail: "requests are refused"}
	case "lost":
		return &Frozen{Round: s.round(args[0]), Table: TableID(args[1]), Cause: CauseLost, Txn: s.txn(args[2]), Detail: "its payload is gone"}
	case "contradiction":
		return &Frozen{Table: TableID(args[0]), Cause: CauseContradiction, Detail: "journal and log disagree"}
	case "counted":
		return &FenceCounted{Table: TableID(args[0]), Version: Version(number(args[1]))}
	case "mended":
		return &Thawed{Table: TableID(args[0]), Mended: true}
	case "hold":
		return &Held{Table: TableID(args[0]), Detail: "no writes tonight"}
	case "unhold":
		return &Held{Table: TableID(args[0]), Off: true}
	case "thaw":
		return &Thawed{Table: TableID(args[0])}
	case "turn":
		return &Turned{}
	case "reserve-end":
		return &ReservationEnded{Key: "key-" + args[0], From: Position(number(args[1]))}
	case "release":
		return &Released{Table: TableID(args[0])}
	case "register":
		return s.w.registration(s.place(args[1]), args[0])
	case "floor":
		return &FloorRaised{Floor: Position(number(args[0]))}
	case "new": // a kind of record that build 1 does not know
		return &Tagged{Name: newKind, Snapshot: 1}
	case "tag":
		return &Tagged{Name: args[0], Snapshot: SnapshotVersion(number(args[1]))}
	case "lease", "renew":
		ttl, _ := time.ParseDuration(args[2])
		return &Leased{ID: args[0], Snapshot: SnapshotVersion(number(args[1])), TTL: ttl, Renew: kind == "renew"}
	case "lease-end":
		end := &LeaseEnded{ID: args[0]}
		if len(args) > 1 {
			end.Until = Time(number(args[1]))
		}
		return end
	case "cut":
		cut := &LogCut{Table: TableID(args[0]), Cut: Version(number(args[1]))}
		for _, a := range args[2:] {
			switch what, val, _ := strings.Cut(a, ":"); what {
			case "seen":
				cut.Seen = Position(number(val))
			case "snapshot":
				cut.Snapshot = SnapshotVersion(number(val))
			}
		}
		return cut
	case "caps":
		caps := DefaultCaps
		for _, a := range args {
			switch what, val, _ := strings.Cut(a, ":"); what {
			case "txns":
				caps.MaxVersionTxns = uint32(number(val))
			case "bytes":
				caps.MaxVersionBytes = uint64(number(val))
			case "coalesce":
				caps.Coalesce = val == "yes"
			case "gather":
				caps.Gather = val == "yes"
			}
		}
		return &SettingChanged{Caps: caps}
	case "checkpoint":
		index, segments := r.state.EncodeCheckpoint("")
		for _, o := range append(segments, index) {
			s.w.objects[o.Ref.Name] = o.Bytes
		}
		return &Checkpointed{Position: r.state.Next(), Object: index.Ref}
	}
	s.t.Fatalf("cannot ask for %q", kind)
	return nil
}

func (s *script) round(id string) RoundID {
	opened, index, _ := strings.Cut(id, ".")
	o, _ := strconv.Atoi(opened)
	i, _ := strconv.Atoi(index)
	return RoundID{Opened: Position(o), Index: uint32(i)}
}

// walk begins a walk of a replica through a table's log.
func (s *script) walk(args []string) string {
	r := s.rep(args[0])
	in := r.state.WalkInput(TableID(args[1]), r.sightOf(TableID(args[1])))
	for _, a := range args[2:] {
		if a == "lookup" {
			in.LookUp = true
		}
		if _, name, ok := strings.Cut(a, "giveup:"); ok {
			in.GiveUp = map[TxnID]bool{s.txn(name): true}
		}
	}
	wk := &scriptWalk{Walk: NewWalk(in, s.w.now), in: in}
	s.walks[args[0]+" "+args[1]] = wk
	return "next: " + s.effect(wk) + "\n"
}

// step carries out the effect of a walk.
func (s *script) step(args []string) string {
	r, wk := s.rep(args[0]), s.walks[args[0]+" "+args[1]]
	if wk == nil {
		s.t.Fatalf("%s walks no %s", args[0], args[1])
	}
	t, _ := r.state.Table(wk.in.Table)
	p := s.w.placeOf(t)
	var res WalkResult
	said := ""
	switch e := wk.Next().(type) {
	case ClaimPlace:
		p.owner = true
		res, said = PlaceClaimed{}, "claimed"
	case ReadVersion:
		res, said = AbsentVersion{}, "absent"
		if c := p.commits[e.Version]; c != nil {
			res, said = s.w.seen(c), s.commit1(c)
		}
	case ListFrom:
		l := p.listing(e.Version)
		res, said = l, listed(l)
	case ReadCleaned:
		c := p.cleanedLog(wk.in.Recorded)
		res, said = c, cleanedName(c)
	case PutVersion, PutBarrier:
		if !wk.MayPut(s.w.now, r.folded) {
			delete(s.walks, args[0]+" "+args[1])
			return "too old to put: fold, and walk again\n"
		}
		put := s.put(r, p, wk, e, fateOf(args))
		res, said = put, fateName(put.Done, put.Exists)
	default:
		return "ended: " + s.effect(wk) + "\n"
	}
	wk.own = s.w.check.own(wk.in.Table)
	wk.Feed(res, s.w.now)
	r.saw(wk.in.Table, wk.Sight())
	return said + "; next: " + s.effect(wk) + "\n"
}

func (s *script) put(r *actorless, p *simPlace, wk *scriptWalk, e WalkEffect, fate string) PutResult {
	var c *simCommit
	switch e := e.(type) {
	case PutBarrier:
		c = renderBarrier(e, wk.in.Table)
	case PutVersion:
		toy := make([]*toyChange, len(e.Changes))
		for i, ch := range e.Changes {
			toy[i] = s.w.changeOf(ch.Part)
		}
		prev := Time(0)
		if below := p.past[e.Version-1]; below != nil {
			prev = below.state.ict
		}
		c = rendering(e.Version, e.Changes[0].Round, wk.in.Table, e.Changes, toy, prev)
		s.w.check.rendered(p, c)
	}
	c.from, c.fromIdentity = wk.in.Recorded, wk.in.Identity
	done, exists := s.fated(fate, fmt.Sprintf("%s@%d of R%d", p.name, c.version, r.id), func() bool { return s.w.put(p, c) })
	return PutResult{Done: done, Exists: exists, Unknown: !done && !exists, Identity: c.identity}
}

// run steps a walk to its end.
func (s *script) run(args []string) string {
	out := ""
	for range 50 {
		line := s.step(args[:2])
		out += line
		wk := s.walks[args[0]+" "+args[1]]
		if wk == nil || wk.end != nil {
			break
		}
	}
	return out
}

// record asks for the record that a walk ended with.
func (s *script) record(args []string) string {
	r, wk := s.rep(args[0]), s.walks[args[0]+" "+args[1]]
	end, ok := wk.end.(AppendRecord)
	if !ok {
		return "the walk wants no record\n"
	}
	if gone, ok := end.Record.(*Replaced); ok {
		s.w.check.looks[gone.Detail] = wk.own
	}
	r.queue, r.what = append(r.queue, Request{Record: end.Record, Base: end.Base}), append(r.what, end.Record.kind()+" "+args[1])
	return "ok\n"
}

// publish asks to close a round, with what the replica's ended walks found.
func (s *script) publish(args []string) string {
	r := s.rep(args[0])
	p := &Published{Round: s.round(args[1])}
	for _, key := range sortedKeys(s.walks) {
		wk := s.walks[key]
		on, _ := r.state.RoundOn(wk.in.Table)
		done, ok := wk.end.(WalkDone)
		if ok && on != nil && on.ID == p.Round && strings.HasPrefix(key, args[0]+" ") && len(done.Found) > 0 {
			p.Tables = append(p.Tables, PublishedTable{Table: wk.in.Table, Versions: slices.Clone(done.Found)})
		}
	}
	r.queue, r.what = append(r.queue, Request{Record: p}), append(r.what, "publication "+args[1])
	return "ok\n"
}
