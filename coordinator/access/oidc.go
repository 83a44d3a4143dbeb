package access

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
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

// principal says whose token it is. Where no known key has signed it, the issuer is
// asked for its keys; while those cannot be had, nobody knows whether it is good.
func (i *issuer) principal(ctx context.Context, raw string, hash digest, now time.Time) (Principal, error) {
	keys, err := i.keys(ctx, now)
	if err != nil {
		return Principal{}, err
	}
	if who, ok := keys.recall(hash, now); ok {
		return who, nil
	}
	token, err := keys.verify(ctx, raw, now)
	if errors.Is(err, errNoKey) || errors.Is(err, errSignature) {
		newer, away := i.newer(ctx, keys, now)
		switch {
		case away == nil:
			keys = newer
			token, err = keys.verify(ctx, raw, now)
		case errors.Is(err, errNoKey):
			return Principal{}, away
		}
	}
	if err != nil {
		return Principal{}, fmt.Errorf("%w: token of issuer %s: %w", ErrUnauthenticated, i.Name, err)
	}
	who, err := i.from(token)
	if err != nil {
		return Principal{}, err
	}
	keys.remember(hash, who, token.Expiry, now)
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

// origins are the issuers that tokens say that they are from, so that it is not read out of
// each with each call. It says nothing of whether they are good, which the issuer is asked
// for all the same; but only those that were take up room.
type origins struct {
	mu sync.RWMutex
	m  map[digest]*issuer
}

func (o *origins) recall(hash digest) *issuer {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.m[hash]
}

func (o *origins) remember(hash digest, is *issuer) {
	if o.recall(hash) != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.m == nil || len(o.m) >= checkedMost {
		o.m = map[digest]*issuer{}
	}
	o.m[hash] = is
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
