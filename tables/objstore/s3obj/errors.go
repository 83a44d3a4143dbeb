package s3obj

import (
	"context"
	"errors"
	"net/http"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// answered is the error that the server gave, and its HTTP status. Without a code
// that names the error, it was not S3 that answered. Answers to HEAD have no body, and
// the SDK names them by their status.
func answered(err error) (code string, status int) {
	var response *awshttp.ResponseError
	if !errors.As(err, &response) {
		return "", 0
	}
	status = response.HTTPStatusCode()
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() == "UnknownError" {
		return "", status
	}
	return api.ErrorCode(), status
}

func isStatus(err error, want int) bool {
	_, status := answered(err)
	return err != nil && status == want
}

// isNotFound tells a missing object from a missing bucket, where the server does.
func isNotFound(err error) bool {
	code, status := answered(err)
	return status == http.StatusNotFound && (code == "NoSuchKey" || code == "NotFound")
}

// passing errors of a read may be gone the next time.
func passing(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || isCredentials(err) {
		return false
	}
	code, status := answered(err)
	return status == 0 || status >= 500 || status == http.StatusTooManyRequests || code == "RequestTimeout"
}

// isCredentials reports whether there are no credentials to sign with.
func isCredentials(err error) bool {
	return strings.Contains(err.Error(), "get identity:") // The SDK has no type for it.
}

// isTransport reports whether the request met nobody.
func isTransport(err error) bool {
	var send *smithyhttp.RequestSendError
	return errors.Is(err, errStalled) || errors.As(err, &send)
}
