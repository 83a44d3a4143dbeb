package logstore

// weakness leaves one part of the protocol out. Only tests set it, to show that they
// find what is lost by it.
type weakness uint

const (
	// weakReadsUnsettled: reads and listings do not finish what others claimed.
	weakReadsUnsettled weakness = 1 << iota
	// weakGap: N is claimed although the entry below is incomplete.
	weakGap
	// weakTempLast: the temporary file is written behind the claim.
	weakTempLast
	// weakCompleteFirst: the entry is completed before the copy.
	weakCompleteFirst
	// weakUnknownIsDone: an unknown claim counts as carried out.
	weakUnknownIsDone
	// weakOverwrites: copies are made without a condition.
	weakOverwrites
	// weakUnclaimed: commits are put without a claim.
	weakUnclaimed
	// weakTidy: a claim that was not answered with yes has its temporary file removed.
	weakTidy
)

func (w weakness) has(flag weakness) bool { return w&flag != 0 }
