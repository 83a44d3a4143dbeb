//go:build !unix

package toolcache

import (
	"context"
	"fmt"
)

// Lock refuses: without a lock that dies with its process the same thing could be
// built twice at once, so nothing is offered.
func Lock(context.Context, string) (unlock func(), err error) {
	return nil, fmt.Errorf("%w: this system has no file locks that we use", ErrUnavailable)
}
