package twophase

// weakness takes one sentence out of the rules. The simulator's must-fail
// variants set it, and nothing else can: each variant shows that the simulator
// would notice if the shipped code lost that sentence. Zero is the shipped protocol.
type weakness uint64

func (w weakness) has(b weakness) bool { return w&b != 0 }

const (
	weakRing              weakness = 1 << iota // R1: a slot takes an entry whatever older one it holds
	weakOvertaking                             // R2: a component opens past one that waits in front of it
	weakNumbersRestart                         // R2: change numbers begin at 1 whatever the log says
	weakOwnRoundEnd                            // R2: a publisher takes all that is pending, not the round
	weakNextFree                               // R3: what exists is passed over unread
	weakBarrierMarks                           // R4: a barrier carries the marker of what it gives up
	weakVerdictsStay                           // R4: verdicts do not age
	weakAbsentIsNo                             // R5: unknown and then absent means not committed
	weakForgottenIsNew                         // R6: a token below the floor counts as new
	weakOneAttemptBack                         // R6: only the attempt before has to be aborted
	weakNoManifestLook                         // R7: a replica starts without a look at the newest manifest
	weakAnyDigest                              // R8: other digests under a decided id get its answer
	weakAnyIdentity                            // R9: version N-1 only has to be there
	weakSightForever                           // R9: a sight of N-1 never ends
	weakOldFold                                // R10: puts are made from a fold of any age
	weakFenceDecided                           // R11: a table is fenced from the decision of the change, not from its publication
	weakFenceUncounted                         // R11: a fence counts as soon as it is recorded
	weakLiftPublished                          // R11: DECIDED is answered until the lifting of the fence is published
	weakAnswerUnchecked                        // R11: what was checked when the request came is not checked at the answer
	weakFrozenTakes                            // R12: a freeze refuses nothing
	weakHeldCloses                             // R12: a round closes over a change that was given up
	weakNeverDiverges                          // R13: every decided change stays possible
	weakNoCascade                              // R13: what needs a change that was given up is not given up
	weakReadsAhead                             // R14: a read point above the recorded version covers all that is pending
	weakHistoryForgets                         // R14: a read point below the kept facts counts as checked
	weakGroupUnchecked                         // R14: requests of one group are not checked against each other
	weakDecisionKept                           // R15: a decision is appended at a later position as it is
	weakOwnClock                               // R16: the entry's time is the writer's clock
	weakSkipUnknown                            // R17: unknown records are skipped
	weakCapsOfNow                              // R17: a round uses the caps of the present
	weakManifestJumps                          // R18: a manifest is written before the one below
	weakForeignUnshown                         // R18: a foreign commit makes no snapshot
	weakSharesApps                             // R19: two transactions of one app share a version
	weakSweepsUnknown                          // R20: no outcome counts as aborted
	weakOneURITwice                            // R21: two tables under one URI
	weakUnderCheckpoint                        // R22: puts under a checkpoint
	weakSettledMarker                          // R22: the marker is compared with the highest number settled
	weakRangeUndelivered                       // R22: a range delivers nothing
	weakNameOnce                               // R21: a name to be created is looked up before the decision only
	weakShowsUnborn                            // R18: a table is shown once it is decided
	weakClaimsNothing                          // R21: version 0 is put without a look at the place
	weakLostUnasked                            // R20: a payload that is missing is lost, whatever the fold says by then
	weakOvertakesReserved                      // reservations: a commit is decided before the key that goes first
	weakReservedTwice                          // reservations: a table rests from none
	weakReservedForever                        // reservations: nothing but its key's commit ends one
	weakReservedJoined                         // reservations: others join though the first one has ended
	weakReservedTimeless                       // reservations: a table rests by positions alone

	weakLast = weakReservedTimeless
)
