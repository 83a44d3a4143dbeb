package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

// documentMost bounds what is read of a discovery document and of a key set.
const documentMost = 1 << 20

// read reads the discovery document of the issuer and the keys that it points to. What
// is wrong is told to callers that nobody knows, so no text of the provider's is in it.
func (i *issuer) read(ctx context.Context, now time.Time) (*generation, error) {
	var found struct {
		Issuer     string   `json:"issuer"`
		Keys       string   `json:"jwks_uri"`
		Algorithms []string `json:"id_token_signing_alg_values_supported"`
	}
	// OpenID Connect Discovery 1.0, section 4.
	if err := i.fetch(ctx, strings.TrimSuffix(i.Issuer.Issuer, "/")+"/.well-known/openid-configuration", &found); err != nil {
		return nil, fmt.Errorf("its discovery document: %w", err)
	}
	if found.Issuer != i.Issuer.Issuer {
		return nil, fmt.Errorf("its discovery document is the one of an issuer that calls itself otherwise; the access file has %s", i.Issuer.Issuer)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := i.fetch(ctx, found.Keys, &set); err != nil {
		return nil, fmt.Errorf("its key set (jwks_uri): %w", err)
	}
	keys := usable(set.Keys)
	if len(keys) == 0 {
		return nil, errors.New("its key set (jwks_uri) has no key that can check signatures")
	}
	algorithms := slices.DeleteFunc(found.Algorithms, func(a string) bool { return !slices.Contains(signing, jose.SignatureAlgorithm(a)) })
	return &generation{
		read: now, issuer: i.Issuer.Issuer, keys: keys, known: map[[32]byte]checked{},
		config: &oidc.Config{ClientID: i.Audience, SupportedSigningAlgs: algorithms},
	}, nil
}

// fetch reads JSON of a bounded size.
func (i *issuer) fetch(ctx context.Context, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return errors.New("its address is no URL")
	}
	req.Header.Set("Cache-Control", "no-cache")
	resp, err := i.client.Do(req)
	if err != nil {
		return reason(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, documentMost+1))
	switch {
	case err != nil:
		return reason(err)
	case len(body) > documentMost:
		return fmt.Errorf("is larger than %d bytes", documentMost)
	case json.Unmarshal(body, into) != nil:
		return errors.New("is not the JSON that it should be")
	}
	return nil
}

// reason is why a request failed, without what the other side has said (errors of HTTP
// quote it, and those of TLS its certificate), and without addresses of this network.
func reason(err error) error {
	var (
		unknown x509.UnknownAuthorityError
		cert    *tls.CertificateVerificationError
		name    *net.DNSError
		number  syscall.Errno
		late    net.Error
	)
	switch {
	case errors.As(err, &unknown):
		return errors.New("x509: certificate signed by unknown authority")
	case errors.As(err, &cert):
		return errors.New("x509: its certificate is not good for its host, or not now")
	case errors.As(err, &late) && late.Timeout():
		return errors.New("no answer in time")
	case errors.As(err, &name):
		return errors.New("its host is not known here")
	case errors.As(err, &number):
		return errors.New("no connection: " + number.Error())
	}
	return errors.New("no answer over HTTP that can be used")
}
