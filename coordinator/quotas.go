package coordinator

import (
	"errors"
	"fmt"

	"github.com/txcoord/txcoord/coordinator/quota"
)

// OverQuota is the refusal of what is more than a principal may take. What alone is more
// than the limit is refused for good.
func OverQuota(err error) error {
	var over *quota.Exceeded
	if !errors.As(err, &over) {
		return err
	}
	if over.RetryAfter == 0 {
		return limitError(over.Limit, over.Value, over.Bound)
	}
	message := "%s would be %d, the limit is %d; repeat the call later, or have the limit raised"
	if over.Share {
		message = "of %s one principal would have %d, and gets %d while others want some; repeat the call later"
	}
	return &Error{
		Reason:     QuotaExceeded,
		Message:    fmt.Sprintf(message, over.Limit, over.Value, over.Bound),
		Limit:      &LimitDetail{Name: over.Limit, Value: over.Value, Limit: over.Bound},
		RetryAfter: over.RetryAfter,
	}
}
