package access_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator/access"
)

// provider is an OpenID Connect provider on a loopback port, whose key can be
// replaced and which can be away.
type provider struct {
	*httptest.Server
	mu   sync.Mutex
	key  *ecdsa.PrivateKey
	id   string
	away bool
	asks int
	// instead answers requests for keys; nil if they are to be had.
	instead http.HandlerFunc
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{}
	p.rotate(t, "one")
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.asks++
		if instead := p.instead; instead != nil && r.URL.Path == "/keys" {
			p.mu.Unlock() // it may take its time
			instead(w, r)
			return
		}
		defer p.mu.Unlock()
		switch {
		case p.away:
			http.Error(w, "away", http.StatusServiceUnavailable)
		case r.URL.Path == "/.well-known/openid-configuration":
			_ = json.NewEncoder(w).Encode(map[string]any{
				"issuer": p.URL, "jwks_uri": p.URL + "/keys", "authorization_endpoint": p.URL + "/a", "token_endpoint": p.URL + "/t",
				"id_token_signing_alg_values_supported": []string{"ES256"},
			})
		case r.URL.Path == "/keys":
			_ = json.NewEncoder(w).Encode(p.keySet())
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *provider) rotate(t *testing.T, id string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key, p.id = key, id
}

func (p *provider) set(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
}

// token signs claims; those that are given replace the usual ones, nil takes one out.
func (p *provider) token(t *testing.T, claims map[string]any) string {
	t.Helper()
	all := map[string]any{"iss": p.URL, "aud": "txcoord", "sub": "ann", "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix()}
	for k, v := range claims {
		if all[k] = v; v == nil {
			delete(all, k)
		}
	}
	body, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: p.key}, (&jose.SignerOptions{}).WithHeader("kid", p.id))
	if err != nil {
		t.Fatal(err)
	}
	signed, err := s.Sign(body)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func show(t *testing.T, a *access.Access, token string) (access.Principal, error) {
	t.Helper()
	return a.Authenticate(t.Context(), access.Proof{Authorization: "Bearer " + token})
}

func TestIssuer(t *testing.T) {
	p, other := newProvider(t), newProvider(t)
	a := must(t, fmt.Sprintf("issuers:\n- {name: away, issuer: 'https://127.0.0.1:1', audience: x}\n- {name: corp, issuer: '%s', audience: txcoord, groups_claim: groups}\n", p.URL))
	who, err := show(t, a, p.token(t, map[string]any{"groups": []string{"etl", "dba", "etl"}}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"corp:ann", "corp-group:etl", "corp-group:dba"}, who.Names); diff != "" {
		t.Error(diff)
	}
	good := p.token(t, nil)
	part := strings.Split(good, ".")
	for what, token := range map[string]string{
		"another audience": p.token(t, map[string]any{"aud": "billing"}),
		"no audience":      p.token(t, map[string]any{"aud": nil}),
		"passed":           p.token(t, map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}),
		"no end":           p.token(t, map[string]any{"exp": nil}),
		"not yet":          p.token(t, map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}),
		"no name":          p.token(t, map[string]any{"sub": ""}),
		"another's key":    other.token(t, map[string]any{"iss": p.URL}),
		"another issuer":   other.token(t, nil),
		"other claims":     part[0] + "." + strings.Split(p.token(t, map[string]any{"sub": "root"}), ".")[1] + "." + part[2],
		"no signature":     part[0] + "." + part[1] + ".",
		"alg none":         "eyJhbGciOiJub25lIn0." + part[1] + ".",
		"no token":         "abc",
	} {
		if who, err := show(t, a, token); !errors.Is(err, access.ErrUnauthenticated) {
			t.Errorf("%s: %v, %v", what, who, err)
		}
	}
}

func TestIssuersKeysRotate(t *testing.T) {
	p := newProvider(t)
	a := must(t, fmt.Sprintf("issuers: [{name: corp, issuer: '%s', audience: txcoord, principal_claim: email}]", p.URL))
	ann := map[string]any{"email": "ann@corp"}
	for _, id := range []string{"two", "three"} {
		token := p.token(t, ann)
		// A fetch of the keys that is just ending is joined, and has those before.
		eventually(t, "the new key is taken", func() bool {
			who, err := show(t, a, token)
			return err == nil && who.Name() == "corp:ann@corp"
		})
		p.rotate(t, id)
	}
	if _, err := show(t, a, p.token(t, nil)); !errors.Is(err, access.ErrUnauthenticated) {
		t.Errorf("without the claim: %v", err)
	}
}

// A key that the provider took away is not trusted for good, also where no token names
// another; while the provider is away, those that are known stay.
func TestAKeyIsTakenAway(t *testing.T) {
	p := newProvider(t)
	a := must(t, fmt.Sprintf("issuers: [{name: corp, issuer: '%s', audience: txcoord}]", p.URL))
	ahead := time.Duration(0)
	a.SetClock(func() time.Time { return time.Now().Add(ahead) })
	a.SetPatience(time.Minute)
	token := p.token(t, nil)
	taken := func(after time.Duration, want error) {
		t.Helper()
		ahead = after
		if _, err := show(t, a, token); !errors.Is(err, want) {
			t.Errorf("after %v: %v, want %v", after, err, want)
		}
	}
	taken(0, nil)
	p.rotate(t, "two")
	taken(5*time.Minute, nil)
	p.set(true)
	taken(11*time.Minute, nil)
	p.set(false)
	taken(11*time.Minute+30*time.Second, nil) // it was asked a moment ago
	taken(13*time.Minute, access.ErrUnauthenticated)
	token = p.token(t, nil)
	taken(13*time.Minute, nil)
}

// A server starts, and serves everybody else, while a provider is away.
func TestAnIssuerThatIsAway(t *testing.T) {
	p := newProvider(t)
	p.set(true)
	a := must(t, fmt.Sprintf("issuers: [{name: corp, issuer: '%s', audience: txcoord}]", p.URL))
	token := p.token(t, nil)
	if _, err := show(t, a, token); !errors.Is(err, access.ErrUnavailable) {
		t.Errorf("away: %v", err)
	}
	p.set(false)
	if who, err := show(t, a, token); err != nil || who.Name() != "corp:ann" {
		t.Fatalf("back: %v, %v", who, err)
	}
	p.set(true)
	if _, err := show(t, a, token); err != nil {
		t.Errorf("a token that was checked a moment ago: %v", err)
	}
	before := p.asks
	for range 100 {
		if _, err := show(t, a, token); err != nil {
			t.Fatal(err)
		}
	}
	if p.asks != before {
		t.Errorf("%d requests for a known token", p.asks-before)
	}
}
