package access

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

// A token that was checked is taken again this long without a look at its signature,
// never past its own end, nor with keys that others took the place of; at most so many
// are remembered.
const (
	checkedFor  = time.Minute
	checkedMost = 4096
)

var (
	errNoKey     = errors.New("it is signed with a key that the issuer does not have")
	errSignature = errors.New("its signature is not one of the key that it names")
)

// signing are the algorithms that a token may be signed with, where the issuer has them.
var signing = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.ES256, jose.ES384, jose.ES512, jose.PS256, jose.PS384, jose.PS512, jose.EdDSA,
}

// generation is one set of keys as it was read, with the tokens that were checked with
// them: these are forgotten with the keys, also those whose check was under way when
// others took their place.
type generation struct {
	// read is when the issuer was asked for them.
	read   time.Time
	issuer string
	config *oidc.Config
	keys   []jose.JSONWebKey

	mu    sync.Mutex
	known map[digest]checked
}

type checked struct {
	who   Principal
	until time.Time
}

func (g *generation) recall(hash digest, now time.Time) (Principal, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	hit, ok := g.known[hash]
	return hit.who, ok && now.Before(hit.until)
}

func (g *generation) remember(hash digest, who Principal, end, now time.Time) {
	until := now.Add(checkedFor)
	if end.Before(until) {
		until = end
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.known) >= checkedMost {
		clear(g.known)
	}
	g.known[hash] = checked{who, until}
}

// verify checks a token as of now: errNoKey and errSignature are about these keys, all else that
// is wrong with it is so with any keys.
func (g *generation) verify(ctx context.Context, raw string, now time.Time) (*oidc.IDToken, error) {
	look := &look{keys: g.keys}
	config := *g.config
	config.Now = func() time.Time { return now }
	token, err := oidc.NewVerifier(g.issuer, look, &config).Verify(ctx, raw)
	if look.err != nil {
		return nil, look.err
	}
	return token, err
}

// look is an oidc.KeySet for one token, and keeps what was wrong, which the verifier
// passes on as text.
type look struct {
	keys []jose.JSONWebKey
	err  error
}

// VerifySignature is the payload of a token that one of the keys has signed.
func (l *look) VerifySignature(_ context.Context, raw string) ([]byte, error) {
	// The verifier has seen to it that there is one signature, of an allowed algorithm.
	jws, err := jose.ParseSigned(raw, signing)
	if err != nil {
		return nil, err
	}
	id := jws.Signatures[0].Header.KeyID
	l.err = errNoKey
	for _, key := range l.keys {
		if id != "" && key.KeyID != id {
			continue
		}
		if payload, err := jws.Verify(key.Key); err == nil {
			l.err = nil
			return payload, nil
		}
		if id != "" {
			l.err = errSignature
		}
	}
	return nil, l.err
}

// usable are the keys of a set that can check signatures. What is not understood is left
// out, as RFC 7517 (section 5) has it: new kinds of keys come up beside old ones.
func usable(set []json.RawMessage) (out []jose.JSONWebKey) {
	for _, raw := range set {
		var key jose.JSONWebKey
		if json.Unmarshal(raw, &key) != nil || key.Use != "" && key.Use != "sig" {
			continue
		}
		if key.Algorithm != "" && !slices.Contains(signing, jose.SignatureAlgorithm(key.Algorithm)) {
			continue
		}
		switch key.Key.(type) {
		case *rsa.PublicKey, *ecdsa.PublicKey, ed25519.PublicKey:
			out = append(out, key)
		}
	}
	return out
}
