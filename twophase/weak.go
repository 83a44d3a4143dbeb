package twophase

// weakness takes one sentence out of the rules. The simulator's must-fail
// variants set it, and nothing else can: each variant shows that the simulator
// would notice if the shipped code lost that sentence.
type weakness uint64
