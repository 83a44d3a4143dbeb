package tables

import "github.com/txcoord/txcoord/twophase"

// checkSteps bounds the work for one commit, whatever it has read and however many changes
// its read points do not cover: the catalog decides meanwhile, and decides nothing else. A
// quarter of a second or so.
const checkSteps = 1 << 25

// checker implements twophase.Checker.
type checker struct {
	// steps were taken so far: values that were compared, or looked up.
	steps int
	// candidate is the one that is compared, taken apart once for all winners.
	of        twophase.Facts
	candidate facts
}

// spent: it is not worth more work to tell.
func (k *checker) spent() bool { return k.steps > checkSteps }

// decoded takes a candidate apart, if it is another one than before.
func (k *checker) decoded(candidate twophase.Facts) (*facts, error) {
	if len(candidate) > 0 && len(candidate) == len(k.of) && &candidate[0] == &k.of[0] {
		return &k.candidate, nil
	}
	f, err := decode(candidate)
	if err != nil {
		return nil, err
	}
	k.of, k.candidate = candidate, f
	return &k.candidate, nil
}
