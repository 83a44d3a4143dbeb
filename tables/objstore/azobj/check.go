package azobj

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/remote"
)

// Check sees that the container can be used below a prefix: that it is there, that
// the credentials may list, read, write and delete, and that of writers that race one
// wins. Its errors say what to do.
func (s *Store) Check(ctx context.Context, prefix string) error {
	err := s.Read(ctx, func(ctx context.Context) error {
		_, _, err := s.driver.List(ctx, objstore.ListOptions{Prefix: prefix}, "")
		return err
	})
	if err == nil {
		err = objstore.Probe(ctx, s, prefix)
	}
	if err != nil {
		return s.explain(err)
	}
	return nil
}

// remedy for credentials that are missing or wrong.
const remedy = "set AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, the AZURE_ variables of a principal, or give the machine an identity"

// explain adds to an error of Check what can be done about it.
func (s *Store) explain(err error) error {
	where := fmt.Sprintf("container %s at %s", s.cfg.Container, s.cfg.Endpoint)
	_, status := answered(err)
	var transport *url.Error
	if status == 0 && !errors.Is(err, objstore.ErrDenied) && (errors.Is(err, remote.ErrStalled) || errors.As(err, &transport)) {
		return objstore.Mark(objstore.ErrUnreachable, fmt.Errorf("%s does not answer: correct the account or the endpoint: %w", where, err))
	}
	return fmt.Errorf("%s: %w", where, err)
}

// Refusal implements remote.Driver.
func (d driver) Refusal(err error) *objstore.Refusal {
	where := "container " + d.cfg.Container
	if d.cfg.Account != "" {
		where += " of account " + d.cfg.Account
	}
	refusal := func(reason error, text, remedy string) *objstore.Refusal {
		return &objstore.Refusal{Reason: reason, Text: text, Remedy: remedy, Err: err}
	}
	code, status := answered(err)
	var login *azidentity.AuthenticationFailedError
	const permissions = "txcoord needs to list, read, write and delete blobs in it (role Storage Blob Data Contributor)"
	switch {
	case code == bloberror.ContainerNotFound, code == bloberror.ContainerBeingDeleted, code == bloberror.ContainerDisabled:
		return refusal(objstore.ErrMissing, "there is no "+where, "create it, or correct the name or the account")
	case code == bloberror.AuthorizationPermissionMismatch, code == bloberror.InsufficientAccountPermissions:
		return refusal(objstore.ErrDenied, "the credentials lack a permission on "+where, permissions)
	case status == http.StatusForbidden && code == "":
		return refusal(objstore.ErrDenied, where+", or something on the way to it, answers that access is forbidden", "see that the credentials hold, and what stands between; "+permissions)
	case status == http.StatusForbidden, status == http.StatusUnauthorized, errors.As(err, &login):
		return refusal(objstore.ErrDenied, where+" does not accept the credentials", remedy)
	}
	return nil
}
