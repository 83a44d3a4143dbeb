package s3obj

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/remote"
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

// isNotFound tells a missing object from a missing bucket, where the server does.
func isNotFound(err error) bool {
	code, status := answered(err)
	return status == http.StatusNotFound && (code == "NoSuchKey" || code == "NotFound")
}

// Verdict implements remote.Driver.
func (driver) Verdict(err error) remote.Verdict {
	code, status := answered(err)
	switch {
	case isCredentials(err):
		return remote.Certain
	case isNotFound(err):
		return remote.NotFound
	case status == http.StatusRequestedRangeNotSatisfiable:
		return remote.BadRange
	case status == http.StatusPreconditionFailed, status == http.StatusNotModified:
		return remote.Refused
	case status == http.StatusConflict && code == "ConditionalRequestConflict":
		return remote.Undecided
	case code == "" || status < 400 || status >= 500:
		return remote.Unknown
	case status == http.StatusTooManyRequests, code == "RequestTimeout":
		return remote.Throttled
	default:
		return remote.Certain
	}
}

// credentialCodes are the answers to credentials that are wrong, or no longer right.
var credentialCodes = []string{"InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "TokenRefreshRequired"}

// Refusal implements remote.Driver.
func (d driver) Refusal(err error) *objstore.Refusal {
	bucket := "bucket " + d.bucket
	refusal := func(reason error, text, remedy string) *objstore.Refusal {
		return &objstore.Refusal{Reason: reason, Text: text, Remedy: remedy, Err: err}
	}
	const permissions = "txcoord needs s3:ListBucket on it, and s3:GetObject, s3:PutObject and s3:DeleteObject on its objects"
	code, status := answered(err)
	switch {
	case code == "NoSuchBucket":
		return refusal(objstore.ErrMissing, "there is no "+bucket, "create it, or correct the name or the account")
	case slices.Contains(credentialCodes, code), isCredentials(err):
		return refusal(objstore.ErrDenied, bucket+" does not accept the credentials", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role of the machine")
	case code == "RequestTimeTooSkewed":
		return refusal(objstore.ErrDenied, bucket+" refuses requests because this machine's clock is wrong", "set it")
	case status == http.StatusForbidden && (code == "" || code == "Forbidden"): // of a proxy, or to a HEAD
		return refusal(objstore.ErrDenied, bucket+", or something on the way to it, answers that access is forbidden", "see that the credentials hold, and what stands between; "+permissions)
	case status == http.StatusForbidden:
		return refusal(objstore.ErrDenied, "the credentials lack a permission on "+bucket, permissions)
	}
	return nil
}

// isCredentials reports whether there are no credentials to sign with.
func isCredentials(err error) bool {
	return strings.Contains(err.Error(), "get identity:") // The SDK has no type for it.
}

// isTransport reports whether the request met nobody.
func isTransport(err error) bool {
	var send *smithyhttp.RequestSendError
	return errors.Is(err, remote.ErrStalled) || errors.As(err, &send)
}
