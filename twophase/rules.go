package twophase

// Facts are what the rules need to know of one change to one table, or of one
// foreign commit: hashes of paths, deletion vectors, app versions, what kinds of
// actions there are. Their encoding belongs to the Rules; twophase only stores
// and compares them by handing them back.
type Facts []byte

// Rules are the Delta knowledge that the protocol needs. They are pure, and
// safe for concurrent use. The fold stores what they answered and never asks
// them (R17).
type Rules interface {
	// Checker is for one commit, before its decision.
	Checker() Checker
	// Impossible says, after the decision, whether a foreign commit made a
	// decided change impossible (R13): by (path, deletion vector), and by nothing
	// that only isolation would ask for. It needs the commit's own facts alone.
	Impossible(decided, foreign Facts) *Conflict
	// ImpossibleAt judges pending changes of one table, in the order of their
	// numbers, against a whole state of the table (R22). Each is judged on top of
	// the state and of those before it that are possible. One answer for each.
	ImpossibleAt(decided []Facts, at Base) []*Conflict
	// Without says which pending changes of one table, in the order of their
	// numbers, cannot stand once those marked as lost are given up: they remove what
	// a lost one adds, add a path that a lost one removes, or rest on its schema or
	// protocol, or need another one of which this is so. One answer for each; nil for
	// the lost ones themselves.
	Without(decided []Facts, lost []bool) []*Conflict
}

// Checker compares what one commit changes and has read with what its read points do not
// cover. That may be very many changes, and nothing else is decided meanwhile: so it stands
// for all of them, can tell when they take too long, and is used by one goroutine.
type Checker interface {
	// Conflict compares a candidate with such a change: by bare path, with the
	// candidate's read set (DESIGN.md section 5). nil: the candidate may follow.
	Conflict(candidate, winner Facts) *Conflict
}

// Base is what the Rules know of a table's state at one version. Only the Rules
// look inside.
type Base any

// View is a table after everything that is decided and recorded on it. The
// driver keeps one per table in step with the fold.
type View interface {
	// Try opens a trial on the view. The view must not change while it is used.
	Try() Trial
}

// Trial lets the candidates of one group be checked against the view and
// against each other, in order, without touching the view.
type Trial interface {
	// Fits says whether the candidate can follow all that the trial holds: its
	// paths, app versions, partition columns, protocol and properties.
	Fits(candidate Facts) *Conflict
	// Take makes the candidate part of the trial.
	Take(candidate Facts)
}
