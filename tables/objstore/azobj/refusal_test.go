//go:build unix

package azobj_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
)

// What is taken from a store that runs is told by each of its operations.
func TestRefusals(t *testing.T) {
	t.Parallel()
	a := servers.StartAzure(t)
	for what, c := range map[string]struct {
		status int
		code   string
		want   error
		says   []string
	}{
		"credentials": {http.StatusForbidden, "AuthenticationFailed", objstore.ErrDenied, []string{"does not accept the credentials", "AZURE_STORAGE_KEY"}},
		"permission":  {http.StatusForbidden, "AuthorizationPermissionMismatch", objstore.ErrDenied, []string{"lack a permission", "Storage Blob Data Contributor"}},
		"container":   {http.StatusNotFound, "ContainerNotFound", objstore.ErrMissing, []string{"there is no container ", "create it"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			cfg := config(t, a)
			root, account, _ := strings.Cut(a.Endpoint, "/"+a.Account)
			proxy := servers.NewHTTPFaults(t, root)
			cfg.Endpoint = proxy.URL + "/" + a.Account + account
			s := open(t, cfg)
			proxy.Decide(func(servers.Request) servers.Fate {
				answer := xmlError(c.status, c.code)
				answer.Header = http.Header{"X-Ms-Error-Code": {c.code}} // a HEAD's answer has no body
				return servers.Fate{Instead: answer}
			})
			objtest.Refuses(t, s, c.want, c.says...)
		})
	}
}
