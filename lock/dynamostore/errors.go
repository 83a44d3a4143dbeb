package dynamostore

import (
	"errors"
	"fmt"

	"github.com/txcoord/txcoord/internal/dynamoapi"
	"github.com/txcoord/txcoord/lock"
)

// meaning says of a write's error what it is to callers.
func (s *Store) meaning(err error) error {
	err = s.refused(err)
	for from, to := range map[error]error{
		dynamoapi.ErrCondition: lock.ErrConflict, dynamoapi.ErrUnknown: lock.ErrUnknown, dynamoapi.ErrTooLarge: lock.ErrTooLarge,
	} {
		if errors.Is(err, from) {
			return fmt.Errorf("%w: %w", to, err)
		}
	}
	return err
}

// refused says of an error that DynamoDB gives until somebody does something about it what
// that is.
func (s *Store) refused(err error) error {
	table := "table " + s.cfg.Table
	var r *lock.Refusal
	switch dynamoapi.KindOf(err) {
	case dynamoapi.Missing:
		r = &lock.Refusal{Reason: lock.ErrMissing, Text: "there is no " + table, Remedy: "make it with txcoord store init, or correct the name, the region or the account"}
	case dynamoapi.Denied:
		r = &lock.Refusal{
			Reason: lock.ErrDenied, Text: table + " does not accept the credentials",
			Remedy: "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role of the machine",
		}
	case dynamoapi.Forbidden:
		r = &lock.Refusal{
			Reason: lock.ErrDenied, Text: "the credentials lack a permission on " + table,
			Remedy: "txcoord needs dynamodb:GetItem, PutItem, DeleteItem, Query and DescribeTable on it, and CreateTable for store init",
		}
	case dynamoapi.Unanswered, dynamoapi.Other:
		return err
	}
	r.Err = err
	return r
}

// explain adds to an error of opening what can be done about it.
func (s *Store) explain(err error) error {
	if _, told := errors.AsType[*lock.Refusal](err); !told {
		err = s.refused(err)
	}
	where := s.table.Where
	if dynamoapi.KindOf(err) == dynamoapi.Unanswered {
		return because(lock.ErrUnreachable, "%s does not answer: correct the endpoint or the region: %w", where, err)
	}
	return fmt.Errorf("%s: %w", where, err)
}

func because(reason error, format string, args ...any) error {
	return lock.Mark(reason, fmt.Errorf(format, args...))
}
