package twophase

// losePayload takes away the payload of a decided change that is in no recorded version:
// a lifecycle rule, or somebody by hand (C2).
func (w *world) losePayload() {
	var all []payloadKey
	for _, t := range w.check.ref.Tables() {
		for _, c := range t.Pending {
			if key := (payloadKey{c.Txn, t.Table, c.Part.Digest()}); w.payloads[key] {
				all = append(all, key)
			}
		}
	}
	if len(all) == 0 {
		return
	}
	key := pick(w, all)
	delete(w.payloads, key)
	w.lost[key] = true
	w.check.counts["payload lost"]++
	w.logf("the payload of %s on %s is lost", short(key.txn), key.table)
}

// lacking are the changes of a table's open round whose payloads are not there.
func (w *world) lacking(t *Table) (out []payloadKey) {
	for _, c := range t.Pending {
		if key := (payloadKey{c.Txn, t.Table, c.Part.Digest()}); c.Round != nil && !w.payloads[key] {
			out = append(out, key)
		}
	}
	return out
}

// mendLoss is what an operator does about a table that lacks payloads: puts them back, or
// gives the changes up, by a barrier (R4) or, where no log is yet that could hold one, with
// the table. False: nothing is lacking, and it thaws by itself.
func (w *world) mendLoss(r *replica, t *Table) bool {
	keys := w.lacking(t)
	switch {
	case len(keys) == 0:
		return false
	case w.chance(0.4):
		for _, key := range keys {
			w.payloads[key] = true
		}
		w.check.counts["payloads put back"]++
		w.logf("an operator puts %d payloads of %s back", len(keys), t.Table)
	case t.Recorded == NoVersion:
		w.check.unprotect(w.placeOf(t))
		w.check.counts["lost with its table"]++
		w.logf("an operator gives %s up on R%d", t.Table, r.id)
		r.ask(&request{Request: Request{Record: &Replaced{Table: t.Table, Recorded: t.Recorded, Detail: "given up"}}})
	default:
		txns := map[TxnID]bool{}
		for _, key := range keys {
			txns[key.txn] = true
		}
		w.check.counts["lost and given up"]++
		w.logf("an operator gives up %d lost changes on %s at R%d", len(txns), t.Table, r.id)
		r.giveUp[t.Table] = txns
	}
	return true
}

// losses checks a finding that a payload is lost.
func (c *checker) losses(r *Frozen) {
	if r.Cause != CauseLost {
		return
	}
	for key := range c.w.lost {
		if key.txn == r.Txn && key.table == r.Table {
			c.counts["frozen: lost"]++
			return
		}
	}
	c.w.fail(noFalseLost, "of %s on %s", short(r.Txn), r.Table)
}

// lose takes the payload of a pending change away.
func (s *script) lose(args []string) string {
	t := s.w.check.ref.tables[TableID(args[0])]
	for _, c := range t.Pending {
		if key := (payloadKey{c.Txn, t.Table, c.Part.Digest()}); c.Txn == s.txn(args[1]) && s.w.payloads[key] {
			delete(s.w.payloads, key)
			s.w.lost[key] = true
			return "gone\n"
		}
	}
	return "there is none\n"
}
