package coordinator

import (
	"strings"

	"github.com/txcoord/txcoord/twophase"
)

// groundOf says more closely why a table is frozen. Records of builds from before there was a
// field for it have it in the words of their detail alone.
func groundOf(f *twophase.Freeze) twophase.Ground {
	switch {
	case f.Ground != twophase.GroundNone:
		return f.Ground
	case f.Cause == twophase.CauseStalled && strings.Contains(f.Detail, tornWords):
		return twophase.GroundTorn
	case f.Cause == twophase.CauseLost && strings.Contains(f.Detail, cannotWriteWords):
		return twophase.GroundUnwritable
	case f.Cause == twophase.CauseReplaced && strings.HasPrefix(f.Detail, givenUpDetail):
		return twophase.GroundGivenUp
	}
	return twophase.GroundNone
}
