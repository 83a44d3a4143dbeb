package coordinator

import "slices"

// FsckCode says what kind of finding one is. Scripts rely on them: never change one.
type FsckCode string

// What is wrong.
const (
	// FsckJournal: an entry does not continue the one before it, or cannot be read.
	FsckJournal FsckCode = "JOURNAL_BROKEN"
	// FsckCheckpoint: objects of the newest checkpoint of the fold are gone or changed.
	FsckCheckpoint FsckCode = "CHECKPOINT_UNREADABLE"
	// FsckVersionMissing: a recorded version is not in the log, and no checkpoint covers it.
	FsckVersionMissing FsckCode = "VERSION_MISSING"
	// FsckVersionAltered: a version has other content than was recorded.
	FsckVersionAltered FsckCode = "VERSION_ALTERED"
	// FsckCheckpointDiffers: a checkpoint of a table holds another state than the commits up
	// to its version, or cannot be read.
	FsckCheckpointDiffers FsckCode = "CHECKPOINT_DIFFERS"
	// FsckVersionUnreadable: a commit file is torn or malformed, or its tags make no sense.
	FsckVersionUnreadable FsckCode = "VERSION_UNREADABLE"
	// FsckLinked: a symbolic link stands where a folder or file of the log was, and what is
	// behind it was not looked at.
	FsckLinked FsckCode = "LOG_LINKED"
	// FsckVersionUnknown: the journal recorded a later version and never this one.
	FsckVersionUnknown FsckCode = "VERSION_UNKNOWN"
	// FsckIncarnation: a version is of another life of the catalog.
	FsckIncarnation FsckCode = "OTHER_INCARNATION"
	// FsckMarker: the markers of a log do not rise, or one is not its transaction's number.
	FsckMarker FsckCode = "MARKER_WRONG"
	// FsckIncomplete: a part of a committed transaction is not in the log of its table.
	FsckIncomplete FsckCode = "TRANSACTION_INCOMPLETE"
	// FsckUnknownTxn: a log holds a transaction as ours that was not decided so.
	FsckUnknownTxn FsckCode = "TRANSACTION_UNKNOWN"
	// FsckTxnAltered: a log holds a transaction with another digest than was decided.
	FsckTxnAltered FsckCode = "TRANSACTION_ALTERED"
	// FsckMisplaced: a log holds a transaction where it does not belong.
	FsckMisplaced FsckCode = "TRANSACTION_MISPLACED"
	// FsckDiverged: a foreign commit made a decided change impossible; an operator has to say
	// what becomes of it.
	FsckDiverged FsckCode = "TRANSACTION_DIVERGED"
	// FsckPayload: what has to be published is not staged any more, or was changed.
	FsckPayload FsckCode = "PAYLOAD_MISSING"
	// FsckManifestMissing: there are manifests below and above, and not this one, which
	// begins where the one below ends.
	FsckManifestMissing FsckCode = "MANIFEST_MISSING"
	// FsckManifestAltered: what a manifest says of a snapshot is not what the journal's record
	// makes, or it cannot be read.
	FsckManifestAltered FsckCode = "MANIFEST_ALTERED"
	// FsckManifestAhead: a manifest is newer than the journal, which was put back.
	FsckManifestAhead FsckCode = "MANIFEST_AHEAD"
	// FsckOwner: the owner object of a table is gone, or another catalog's.
	FsckOwner FsckCode = "OWNER_WRONG"
	// FsckStopped: the table is frozen because journal and log disagree.
	FsckStopped FsckCode = "TABLE_STOPPED"
)

// What is as it should be, and worth saying.
const (
	// FsckPending: decided, and not published yet.
	FsckPending FsckCode = "PENDING"
	// FsckCleaned: versions were cleaned, and are not provable any more.
	FsckCleaned FsckCode = "CLEANED"
	// FsckGivenUp: an operator gave the change up.
	FsckGivenUp FsckCode = "GIVEN_UP"
	// FsckManifestPending: the newest manifests are not written yet.
	FsckManifestPending FsckCode = "MANIFEST_PENDING"
	// FsckFrozen: the table takes no commits for now.
	FsckFrozen FsckCode = "FROZEN"
)

// Wrong reports whether a finding of the code says that something is wrong.
func (c FsckCode) Wrong() bool {
	return !slices.Contains(notes, c)
}

var notes = []FsckCode{FsckPending, FsckCleaned, FsckGivenUp, FsckManifestPending, FsckFrozen}

// Remedy says what to do about it; empty where nothing has to be done.
func (c FsckCode) Remedy() string { return remedies[c] }

var remedies = map[FsckCode]string{
	FsckJournal:           "stop the servers and bring the store back from a copy that is not older than the newest manifest",
	FsckCheckpoint:        "bring the objects under checkpoints/ back from a copy or a former version of the bucket; a running server writes new ones",
	FsckVersionMissing:    "put the file back from a copy or a former version of the bucket",
	FsckVersionAltered:    "put the file back as it was, from a copy or a former version of the bucket",
	FsckCheckpointDiffers: "see that the commit files up to it are as they were written; then delete the checkpoint's file and _last_checkpoint, and: txcoord tables maintain TABLE",
	FsckVersionUnreadable: "put the file back as it was, from a copy or a former version of the bucket; where nothing is recorded of the version there is none to put back, and txcoord tables why TABLE says what to do",
	FsckLinked:            "put the folder or file itself back where the link is, and look again: nothing behind it was looked at",
	FsckVersionUnknown:    "find out who wrote the file into the log; if it does not belong there, take it away, or restore the table from a copy",
	FsckIncarnation:       "another life of this catalog writes the table: stop its servers",
	FsckMarker:            "put the file back as it was, from a copy or a former version of the bucket",
	FsckIncomplete:        "put the file of that version back from a copy; else take the same rows out of the transaction's other tables by hand",
	FsckUnknownTxn:        "find out who wrote the file; an older copy of the journal, or another server with one, is running or was",
	FsckTxnAltered:        "put the file back as it was, from a copy or a former version of the bucket",
	FsckMisplaced:         "find out who wrote the file; if it is a copy of another version, take it away",
	FsckDiverged:          "txcoord tables why TABLE explains it, txcoord tables resolve TABLE settles it",
	FsckPayload:           "bring the object or key back from a copy; else txcoord tables resolve TABLE --give-up gives the change up",
	FsckManifestMissing:   "put the file back from a copy; a server writes it again only as long as it is the newest",
	FsckManifestAltered:   "put the file back from a copy, or from a former version of the bucket",
	FsckManifestAhead:     "the journal was brought back from an older copy: bring the newest one back",
	FsckOwner:             "stop the other catalog from writing the table, or release the table here; txcoord tables register NAME URI --take-over, with the --mode that it has, takes it back",
	FsckStopped:           "txcoord tables why TABLE explains it, txcoord tables resolve TABLE settles it",
	FsckPending:           "a running server publishes it",
	FsckManifestPending:   "a running server writes it",
	FsckFrozen:            "txcoord tables why TABLE explains it",
}
