package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/txcoord/txcoord/lock"
)

// uncertain says of a write's error what it means: the condition failed, not carried
// out for certain, or unknown. sent says that there was a connection.
func uncertain(err error, sent bool) error {
	var failed *types.ConditionalCheckFailedException
	code, status := answer(err)
	switch {
	case errors.As(err, &failed):
		return fmt.Errorf("%w: %w", lock.ErrConflict, err)
	case !sent:
		return err
	case code == "" || status < 400 || status >= 500:
		return fmt.Errorf("%w: %w", lock.ErrUnknown, err)
	case code == "ValidationException" && strings.Contains(err.Error(), "Item size"):
		return fmt.Errorf("%w: %w", lock.ErrTooLarge, err)
	default:
		return err
	}
}

// answer is the error that the server gave, and its HTTP status. Without a code that
// names the error, it was not DynamoDB that answered.
func answer(err error) (code string, status int) {
	var api smithy.APIError
	var response *awshttp.ResponseError
	if !errors.As(err, &api) || !errors.As(err, &response) || api.ErrorCode() == "UnknownError" {
		return "", 0
	}
	return api.ErrorCode(), response.HTTPStatusCode()
}

// isThrottled reports whether a request was refused for its rate, before anything
// was done with it.
func isThrottled(err error) bool {
	code, status := answer(err)
	if status != http.StatusBadRequest {
		return false
	}
	switch code {
	case "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded":
		return true
	default:
		return false
	}
}

// passing errors of a read may be gone the next time: no answer, a fault of the
// server's, or a refused rate.
func passing(err error) bool {
	if errors.Is(err, context.Canceled) || isCredentials(err) {
		return false
	}
	code, status := answer(err)
	return code == "" || status >= 500 || isThrottled(err)
}

// isCredentials reports whether there are no credentials to sign with.
func isCredentials(err error) bool {
	return strings.Contains(err.Error(), "get identity:") // The SDK has no type for it.
}

// explain adds to an error of opening what can be done about it.
func (s *Store) explain(err error) error {
	where := s.cfg.where(s.region)
	code, _ := answer(err)
	switch {
	case code == "ResourceNotFoundException":
		return because(lock.ErrMissing, "there is no %s: make it with txcoord store init, or correct the name, the region or the account: %w", where, err)
	case code == "UnrecognizedClientException", code == "InvalidSignatureException", code == "MissingAuthenticationTokenException",
		code == "IncompleteSignatureException", code == "ExpiredTokenException", code == "InvalidClientTokenId", isCredentials(err):
		return because(lock.ErrDenied, "%s does not accept the credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role of the machine: %w", where, err)
	case code == "AccessDeniedException":
		return because(lock.ErrDenied, "%s: the credentials lack a permission; txcoord needs dynamodb:GetItem, PutItem, DeleteItem, Query and DescribeTable on it, and CreateTable for store init: %w", where, err)
	case code == "" && !errors.Is(err, context.Canceled) && isTransport(err):
		return because(lock.ErrUnreachable, "%s does not answer: correct the endpoint or the region: %w", where, err)
	default:
		return fmt.Errorf("%s: %w", where, err)
	}
}

func because(reason error, format string, args ...any) error {
	return lock.Mark(reason, fmt.Errorf(format, args...))
}

// isTransport reports whether the request met nobody.
func isTransport(err error) bool {
	var send *smithyhttp.RequestSendError
	return errors.Is(err, errNoAnswer) || errors.As(err, &send)
}
