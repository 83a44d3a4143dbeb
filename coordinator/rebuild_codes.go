package coordinator

import "slices"

// RebuildCode says what kind of finding one is. Scripts rely on them: never change one.
type RebuildCode string

// What would be lost. A rebuild goes on only where each of them is accepted.
const (
	// RebuildTorn: a transaction is in the logs of some of its tables, and not in others.
	RebuildTorn RebuildCode = "TORN"
	// RebuildManifests: manifests are missing between others, or cannot be read.
	RebuildManifests RebuildCode = "MANIFESTS_BROKEN"
	// RebuildUnreadable: a table's log cannot be read. It is left out.
	RebuildUnreadable RebuildCode = "TABLE_UNREADABLE"
	// RebuildWentBack: a log ends below what a manifest names. The table is left out, since
	// its versions would go back from one snapshot to the next.
	RebuildWentBack RebuildCode = "TABLE_WENT_BACK"
	// RebuildNotOwned: a table that the newest manifest names has no owner object, or that
	// of another table. It was released, or somebody took the object away. It is left out.
	RebuildNotOwned RebuildCode = "TABLE_NOT_OWNED"
	// RebuildOwnedElsewhere: it belongs to another catalog. It is left out.
	RebuildOwnedElsewhere RebuildCode = "TABLE_OWNED_ELSEWHERE"
	// RebuildTwice: two tables of one name, or at one place. The later one is left out.
	RebuildTwice RebuildCode = "TABLE_TWICE"
)

// What comes back otherwise than it was, and is worth saying.
const (
	// RebuildMode: the table comes back as open, since nobody vouches for its mode any more.
	RebuildMode RebuildCode = "MODE_OPENED"
	// RebuildFence: DECIDED is offered again when the fence has counted anew.
	RebuildFence RebuildCode = "FENCE_COUNTS_ANEW"
	// RebuildCleaned: commits of the log were cleaned or are old; keys of transactions that
	// only they name are not known any more.
	RebuildCleaned RebuildCode = "KEYS_FORGOTTEN"
	// RebuildHold: an operator had frozen the table, and it comes back without that.
	RebuildHold RebuildCode = "FREEZE_LOST"
	// RebuildNames: tags, leases and operators' freezes stood in the journal alone.
	RebuildNames RebuildCode = "TAGS_AND_LEASES_LOST"
	// RebuildStaged: a transaction has staged parts and is in no log: it was open, or
	// decided and not published.
	RebuildStaged RebuildCode = "STAGED"
	// RebuildUnborn: a folder has an owner object of the catalog, and no log.
	RebuildUnborn RebuildCode = "TABLE_UNBORN"
	// RebuildNamed: nothing tells the table's name; it has that of its folder.
	RebuildNamed RebuildCode = "NAME_FROM_FOLDER"
	// RebuildJournal: the older journal in the store cannot be ended by a record.
	RebuildJournal RebuildCode = "OLD_JOURNAL_UNREADABLE"
)

var rebuildLosses = []RebuildCode{RebuildTorn, RebuildManifests, RebuildUnreadable, RebuildWentBack, RebuildNotOwned, RebuildOwnedElsewhere, RebuildTwice}

// Loss reports whether a finding of the code has to be accepted.
func (c RebuildCode) Loss() bool { return slices.Contains(rebuildLosses, c) }

// RebuildLosses are the codes that can be accepted.
func RebuildLosses() []RebuildCode { return slices.Clone(rebuildLosses) }

// Remedy says what to do about it; empty where nothing has to be done.
func (c RebuildCode) Remedy() string { return rebuildRemedies[c] }

var rebuildRemedies = map[RebuildCode]string{
	RebuildTorn:           "the journal that could complete it is lost: bring it back if you can; else accept it, and add the missing rows, or take the others out, by a transaction of their own",
	RebuildManifests:      "put the files back from a copy or a former version of the bucket; accepted, names and places come from what is there and from the owner objects",
	RebuildUnreadable:     "put the file back from a copy or a former version of the bucket; accepted, the table is left out, and can be registered when it is mended (tables register NAME URI --take-over)",
	RebuildWentBack:       "put the table's newest log back; accepted, the table is left out, and can be registered as a new one (tables register NAME URI --take-over). What it lacks is lost there alone: a transaction that had its part in those versions stays published on the other tables, is known as given up on this one, and is named here by its id",
	RebuildNotOwned:       "if it was released, accept that; else put its owner object back; accepted, the table is left out, and can be registered as a new one",
	RebuildOwnedElsewhere: "accepted, the table is left out",
	RebuildTwice:          "accepted, the table is left out; register it under another name (tables register NAME URI --take-over)",
	RebuildMode:           "txcoord tables mode TABLE MODE sets it again, or --mode TABLE=MODE here",
	RebuildFence:          "wait for the grace time, or txcoord tables fence TABLE --no-older-writers",
	RebuildHold:           "txcoord tables freeze TABLE --reason TEXT, before anybody writes, if it still holds",
	RebuildNames:          "set tags, leases and freezes again",
	RebuildStaged:         "the next try under its key commits it; its parts go when they expire",
	RebuildUnborn:         "nothing: the table was never published",
	RebuildNamed:          "--name ID=NAME gives it another one",
	RebuildJournal:        "see that no server of it runs",
}
