package access

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// Issuer is an OpenID Connect provider whose ID or access tokens (JWTs with the
// audience) are taken. Its keys are fetched from where its discovery document says,
// again when a token names a key that is not known, and now and then, so that a key
// which the provider took away is not trusted for good.
type Issuer struct {
	// Name stands in front of its principals: "NAME:SUBJECT" and "NAME-group:GROUP".
	Name     string `yaml:"name"`
	Issuer   string `yaml:"issuer"`
	Audience string `yaml:"audience"`
	// PrincipalClaim is the claim that names the principal; "sub" if unset.
	PrincipalClaim string `yaml:"principal_claim"`
	// GroupsClaim is a claim with a list of groups; none if unset.
	GroupsClaim string `yaml:"groups_claim"`
}

func (i *Issuer) check(at string, taken map[string]bool) error {
	switch {
	case i.Name == "" || strings.ContainsAny(i.Name, ":*? "):
		return fmt.Errorf("%s.name: %q; give the issuer a short name without : * ? or spaces", at, i.Name)
	case taken[i.Name] || taken[i.Name+"-group"]:
		return fmt.Errorf("%s.name: %q is taken; choose another", at, i.Name)
	case !strings.HasPrefix(i.Issuer, "https://") && !strings.HasPrefix(i.Issuer, "http://127.0.0.1") && !strings.HasPrefix(i.Issuer, "http://[::1]"):
		return fmt.Errorf("%s.issuer: %q; want the https:// URL of the issuer", at, i.Issuer)
	case i.Audience == "":
		return fmt.Errorf("%s.audience: is missing; without one, tokens for other services would be taken", at)
	}
	taken[i.Name], taken[i.Name+"-group"] = true, true
	return nil
}

// issuer checks tokens of an Issuer. Discovery happens at the first token, and again
// until it succeeds, so that a server starts while the provider is away.
type issuer struct {
	Issuer
	client *http.Client

	mu       sync.Mutex
	verifier *oidc.IDTokenVerifier
	// renew is when the verifier, and with it the keys that it knows, is made anew.
	renew time.Time
	// known are tokens that were checked a moment ago, by hash.
	known map[[sha256.Size]byte]checked
}

type checked struct {
	who   Principal
	until time.Time
}

// A token that was checked is taken again this long without a look at its signature,
// never past its own end; at most so many are remembered.
const (
	checkedFor  = time.Minute
	checkedMost = 4096
)

// Keys are trusted this long without the provider having been asked again. While it is
// away it is asked again in a while, and those that are known stay.
const (
	keysFor  = 10 * time.Minute
	askAgain = time.Minute
)

func (i *issuer) principal(ctx context.Context, raw string, now time.Time) (Principal, error) {
	key := sha256.Sum256([]byte(raw))
	i.mu.Lock()
	hit, ok := i.known[key]
	i.mu.Unlock()
	if ok && now.Before(hit.until) {
		return hit.who, nil
	}
	v, err := i.verify(ctx, now)
	if err != nil {
		return Principal{}, err
	}
	token, err := v.Verify(oidc.ClientContext(ctx, i.client), raw)
	if err != nil {
		return Principal{}, fmt.Errorf("%w: token of issuer %s: %w", ErrUnauthenticated, i.Name, err)
	}
	who, err := i.from(token)
	if err != nil {
		return Principal{}, err
	}
	until := now.Add(checkedFor)
	if token.Expiry.Before(until) {
		until = token.Expiry
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.known) >= checkedMost {
		clear(i.known)
	}
	i.known[key] = checked{who, until}
	return who, nil
}

// issuerOf reads, unverified, who a token says that it is from.
func issuerOf(raw string) string {
	parts := strings.Split(raw, ".")
	if len(parts) != 3 {
		return ""
	}
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(body, &claims) != nil {
		return ""
	}
	return claims.Issuer
}

func (i *issuer) verify(ctx context.Context, now time.Time) (*oidc.IDTokenVerifier, error) {
	i.mu.Lock()
	old := i.verifier
	fresh := old != nil && now.Before(i.renew)
	if !fresh {
		i.renew = now.Add(askAgain) // whoever comes meanwhile goes on with the old one
	}
	i.mu.Unlock()
	if fresh {
		return old, nil
	}
	v, err := i.ask(ctx, old != nil)
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case err == nil:
		i.verifier, i.renew = v, now.Add(keysFor)
		clear(i.known)
		return v, nil
	case old != nil:
		return old, nil
	}
	return nil, fmt.Errorf("%w: ask issuer %s for its keys: %w", ErrUnavailable, i.Name, err)
}

// ask makes a verifier, which fetches the keys when it needs them first. One that is to
// take the place of another has to be able to.
func (i *issuer) ask(ctx context.Context, keys bool) (*oidc.IDTokenVerifier, error) {
	// The provider keeps the context for the keys that it fetches later.
	ctx = oidc.ClientContext(context.WithoutCancel(ctx), i.client)
	p, err := oidc.NewProvider(ctx, i.Issuer.Issuer)
	if err != nil {
		return nil, err
	}
	if keys {
		var at struct {
			Keys string `json:"jwks_uri"`
		}
		if err := p.Claims(&at); err != nil {
			return nil, err
		}
		if err := i.answers(ctx, at.Keys); err != nil {
			return nil, err
		}
	}
	return p.Verifier(&oidc.Config{ClientID: i.Audience}), nil
}

// answers sees that an address answers a request for keys.
func (i *issuer) answers(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := i.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return nil
}

func (i *issuer) from(token *oidc.IDToken) (Principal, error) {
	name, claims := token.Subject, map[string]any{}
	if err := token.Claims(&claims); err != nil {
		return Principal{}, fmt.Errorf("%w: claims of a token of issuer %s: %w", ErrUnauthenticated, i.Name, err)
	}
	if c := i.PrincipalClaim; c != "" {
		name, _ = claims[c].(string)
	}
	if name == "" {
		return Principal{}, fmt.Errorf("%w: a token of issuer %s has no claim that names its principal", ErrUnauthenticated, i.Name)
	}
	who := Principal{Names: []string{i.Name + ":" + name}}
	groups, _ := claims[i.GroupsClaim].([]any)
	for _, g := range groups {
		if s, ok := g.(string); ok && !slices.Contains(who.Names, i.Name+"-group:"+s) {
			who.Names = append(who.Names, i.Name+"-group:"+s)
		}
	}
	return who, nil
}
