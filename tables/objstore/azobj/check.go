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
	code, status := answered(err)
	var login *azidentity.AuthenticationFailedError
	var transport *url.Error
	switch {
	case code == bloberror.ContainerNotFound, code == bloberror.ContainerBeingDeleted:
		return objstore.Mark(objstore.ErrMissing, fmt.Errorf("there is no %s: create it, or correct the name or the account: %w", where, err))
	case code == bloberror.AuthorizationPermissionMismatch, code == bloberror.InsufficientAccountPermissions:
		return objstore.Mark(objstore.ErrDenied, fmt.Errorf("%s: the credentials lack a permission; txcoord needs to list, read, write and delete blobs in it (role Storage Blob Data Contributor): %w", where, err))
	case status == http.StatusForbidden, status == http.StatusUnauthorized, errors.As(err, &login):
		return objstore.Mark(objstore.ErrDenied, fmt.Errorf("%s does not accept the credentials: %s: %w", where, remedy, err))
	case status == 0 && (errors.Is(err, remote.ErrStalled) || errors.As(err, &transport)):
		return objstore.Mark(objstore.ErrUnreachable, fmt.Errorf("%s does not answer: correct the account or the endpoint: %w", where, err))
	default:
		return fmt.Errorf("%s: %w", where, err)
	}
}
