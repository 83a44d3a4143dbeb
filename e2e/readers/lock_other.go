//go:build !unix

package readers

import (
	"context"
	"fmt"
)

// lockFile: without a lock that dies with its process the environment could be
// built twice at once, so the engines are not offered.
func lockFile(context.Context, string) (unlock func(), err error) {
	return nil, fmt.Errorf("%w: this system has no file locks that we use", ErrUnavailable)
}
