package dynamoapi

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
)

// What became of a write that failed.
var (
	// ErrCondition: its condition did not hold.
	ErrCondition = errors.New("condition failed")
	// ErrUnknown: it may have been carried out, or may be later.
	ErrUnknown = errors.New("outcome unknown")
	// ErrTooLarge: the item is larger than DynamoDB takes.
	ErrTooLarge = errors.New("item too large")
)

// meaning says what a write's error means. sent says that there was a connection.
func meaning(err error, sent bool) error {
	var failed *types.ConditionalCheckFailedException
	code, status := answer(err)
	switch {
	case errors.As(err, &failed):
		return fmt.Errorf("%w: %w", ErrCondition, err)
	case !sent:
		return err
	case code == "" || status < 400 || status >= 500:
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	case code == "ValidationException" && strings.Contains(err.Error(), "Item size"):
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
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

// Kind of a failure to get at a table.
type Kind int

// The kinds that a user can do something about.
const (
	Other Kind = iota
	Missing
	Denied     // the credentials are missing or wrong
	Forbidden  // they lack a permission
	Unanswered // nobody is there
)

// KindOf tells what keeps a request from its table.
func KindOf(err error) Kind {
	code, _ := answer(err)
	switch {
	case err == nil:
		return Other
	case code == "ResourceNotFoundException":
		return Missing
	case code == "UnrecognizedClientException", code == "InvalidSignatureException", code == "MissingAuthenticationTokenException",
		code == "IncompleteSignatureException", code == "ExpiredTokenException", code == "InvalidClientTokenId", isCredentials(err):
		return Denied
	case code == "AccessDeniedException":
		return Forbidden
	case code == "" && !errors.Is(err, context.Canceled) && isTransport(err):
		return Unanswered
	}
	return Other
}

// isTransport reports whether the request met nobody.
func isTransport(err error) bool {
	var send *smithyhttp.RequestSendError
	return errors.Is(err, errNoAnswer) || errors.As(err, &send)
}
