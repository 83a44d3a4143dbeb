package dynamostore

import (
	"errors"
	"fmt"

	"github.com/txcoord/txcoord/internal/dynamoapi"
	"github.com/txcoord/txcoord/lock"
)

// meaning says of a write's error what it is to callers.
func meaning(err error) error {
	for from, to := range map[error]error{
		dynamoapi.ErrCondition: lock.ErrConflict, dynamoapi.ErrUnknown: lock.ErrUnknown, dynamoapi.ErrTooLarge: lock.ErrTooLarge,
	} {
		if errors.Is(err, from) {
			return fmt.Errorf("%w: %w", to, err)
		}
	}
	return err
}

// explain adds to an error of opening what can be done about it.
func (s *Store) explain(err error) error {
	where := s.table.Where
	switch dynamoapi.KindOf(err) {
	case dynamoapi.Missing:
		return because(lock.ErrMissing, "there is no %s: make it with txcoord store init, or correct the name, the region or the account: %w", where, err)
	case dynamoapi.Denied:
		return because(lock.ErrDenied, "%s does not accept the credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role of the machine: %w", where, err)
	case dynamoapi.Forbidden:
		return because(lock.ErrDenied, "%s: the credentials lack a permission; txcoord needs dynamodb:GetItem, PutItem, DeleteItem, Query and DescribeTable on it, and CreateTable for store init: %w", where, err)
	case dynamoapi.Unanswered:
		return because(lock.ErrUnreachable, "%s does not answer: correct the endpoint or the region: %w", where, err)
	case dynamoapi.Other:
	}
	return fmt.Errorf("%s: %w", where, err)
}

func because(reason error, format string, args ...any) error {
	return lock.Mark(reason, fmt.Errorf(format, args...))
}
