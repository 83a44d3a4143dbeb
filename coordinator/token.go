package coordinator

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// token names a transaction in a client's hands (R6). It is signed, so that the
// position in it can be trusted, and holds no secret.
type token struct {
	Txn         string `json:"t"`
	Key         string `json:"k,omitempty"`
	Attempt     uint32 `json:"a,omitempty"`
	Catalog     string `json:"c"`
	Incarnation string `json:"i"`
	Position    uint64 `json:"p"`
	Deadline    int64  `json:"d"` // milliseconds since 1970; advice
}

const macBytes = 16

// tokenMark begins every token, so that none looks like a flag.
const tokenMark = "t"

func (c *Catalog) sign(t token) string {
	body, _ := json.Marshal(t) // strings and numbers only
	mac := hmac.New(sha256.New, []byte(c.journal.Meta().Secret))
	mac.Write(body)
	return tokenMark + base64.RawURLEncoding.EncodeToString(append(mac.Sum(nil)[:macBytes], body...))
}

// txnRef is a token that was read: the transaction that it names.
type txnRef struct {
	id       twophase.TxnID
	key      string
	attempt  uint32
	begun    twophase.Position
	deadline time.Time
}

// open reads a token. INVALID_TOKEN, or TOKEN_STALE for one that says it is of another
// incarnation: a rebuild has another secret, and nothing rests on who refuses it; that its position is not ahead of the journal is checked where it
// counts, against a head that was read later (R6).
func (c *Catalog) open(s string) (txnRef, error) {
	bad := func(why string) (txnRef, error) {
		return txnRef{}, &Error{
			Reason: InvalidToken, Message: "the token " + why,
			Field: &FieldDetail{Field: "token", Remedy: "pass the token that Begin answered, unchanged"},
		}
	}
	if s == "" {
		return bad("is missing")
	}
	body, marked := strings.CutPrefix(s, tokenMark)
	raw, err := base64.RawURLEncoding.DecodeString(body)
	if !marked || err != nil || len(raw) < macBytes {
		return bad("is not one of ours")
	}
	meta := c.journal.Meta()
	var t token
	unread := json.Unmarshal(raw[macBytes:], &t)
	if unread == nil && t.Catalog == meta.Catalog && t.Incarnation != meta.Incarnation {
		return txnRef{}, &Error{Reason: TokenStale, Message: "the token is of another incarnation of the catalog; begin again"}
	}
	mac := hmac.New(sha256.New, []byte(meta.Secret))
	mac.Write(raw[macBytes:])
	if !hmac.Equal(mac.Sum(nil)[:macBytes], raw[:macBytes]) {
		return bad("was altered, or is of another catalog")
	}
	id, err := twophase.ParseTxnID(t.Txn)
	if err != nil || unread != nil {
		return bad("cannot be read")
	}
	if t.Catalog != meta.Catalog {
		return bad("is of another catalog")
	}
	return txnRef{id: id, key: t.Key, attempt: t.Attempt, begun: twophase.Position(t.Position), deadline: time.UnixMilli(t.Deadline)}, nil
}

func (c *Catalog) tokenOf(r txnRef) string {
	meta := c.journal.Meta()
	return c.sign(token{
		Txn: r.id.String(), Key: r.key, Attempt: r.attempt, Catalog: meta.Catalog, Incarnation: meta.Incarnation,
		Position: uint64(r.begun), Deadline: r.deadline.UnixMilli(),
	})
}
