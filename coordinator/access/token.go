package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"time"
)

// tokenPrefix lets scanners for leaked secrets find ours, and tells static tokens
// from those of an issuer.
const tokenPrefix = "txcoord_"

// Token is a static token. Only its hash is kept: it holds 256 random bits, so that
// one round of SHA-256 is enough.
type Token struct {
	// Principal is the name; bindings call it "token:NAME".
	Principal string `yaml:"principal"`
	SHA256    string `yaml:"sha256"`
	// NotAfter ends it. Two tokens of one principal overlap while one is replaced.
	NotAfter *time.Time `yaml:"not_after"`
}

// NewToken makes a token, and the entry of the access file that lets it in. The
// secret is nowhere else.
func NewToken(principal string, notAfter *time.Time) (secret string, t Token) {
	var b [32]byte
	_, _ = rand.Read(b[:])
	secret = tokenPrefix + base64.RawURLEncoding.EncodeToString(b[:])
	h := hashToken(secret)
	return secret, Token{Principal: principal, SHA256: hex.EncodeToString(h[:]), NotAfter: notAfter}
}

func hashToken(secret string) digest { return sha256.Sum256([]byte(secret)) }

// digest is the hash of a secret.
type digest = [sha256.Size]byte

// tokens are static tokens by hash. Looking up the hash of what was sent tells
// nobody how much of a secret was right.
type tokens map[digest]known

// known is a token with what follows from it, made once.
type known struct {
	Token
	who Principal
}

func newTokens(all []Token) (tokens, error) {
	out := tokens{}
	for i, t := range all {
		at := fmt.Sprintf("tokens[%d]", i)
		h, err := hex.DecodeString(t.SHA256)
		switch {
		case t.Principal == "":
			return nil, fmt.Errorf("%s.principal: is missing", at)
		case err != nil || len(h) != sha256.Size:
			return nil, fmt.Errorf("%s.sha256: want 64 hex digits; `txcoord access token` makes them", at)
		}
		key := digest(h)
		if _, ok := out[key]; ok {
			return nil, fmt.Errorf("%s.sha256: stands there twice", at)
		}
		out[key] = known{t, Principal{Names: []string{"token:" + t.Principal}}}
	}
	return out, nil
}

func (t tokens) principal(hash digest, now time.Time) (Principal, error) {
	known, ok := t[hash]
	switch {
	case !ok:
		return Principal{}, fmt.Errorf("%w: the token is not known", ErrUnauthenticated)
	case known.NotAfter != nil && !now.Before(*known.NotAfter):
		return Principal{}, fmt.Errorf("%w: the token of %s ended at %s", ErrUnauthenticated, known.Principal, known.NotAfter.Format(time.RFC3339))
	}
	return known.who, nil
}
