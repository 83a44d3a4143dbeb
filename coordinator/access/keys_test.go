package access_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/txcoord/txcoord/coordinator/access"
)

// theirs is text of a provider, which is nothing for callers.
const theirs = "what-the-provider-says"

// badKeys are answers without a key that can check a signature.
var badKeys = map[string]http.HandlerFunc{
	"a page":         says(http.StatusOK, "text/html", "<html>"+theirs+"</html>"),
	"garbage":        says(http.StatusOK, "application/json", theirs),
	"nothing":        says(http.StatusOK, "application/json", ""),
	"no set":         says(http.StatusOK, "application/json", `{"error": "`+theirs+`"}`),
	"another form":   says(http.StatusOK, "application/json", `{"keys": "`+theirs+`"}`),
	"an empty set":   says(http.StatusOK, "application/json", `{"keys": []}`),
	"unknown kinds":  says(http.StatusOK, "application/json", `{"keys": [{"kty": "`+theirs+`", "kid": "one"}, {"kty": "EC", "crv": "`+theirs+`", "x": "AA", "y": "AA"}, 7]}`),
	"a shared key":   says(http.StatusOK, "application/json", `{"keys": [{"kty": "oct", "k": "AAAA", "kid": "one"}]}`),
	"cut off":        says(http.StatusOK, "application/json", `{"keys": [{"kty": "EC"`),
	"not authorized": says(http.StatusUnauthorized, "text/plain", theirs),
	"away":           says(http.StatusServiceUnavailable, "text/plain", theirs),
	"another place": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", theirs+"://x")
		w.WriteHeader(http.StatusFound)
	},
	"too large": says(http.StatusOK, "application/json", `{"keys": [], "x": "`+strings.Repeat(theirs, access.DocumentMost/len(theirs))+`"}`),
	"no HTTP": func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer c.Close()
		_, _ = c.Write([]byte(theirs + "\r\n\r\n"))
	},
}

func says(status int, kind, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	}
}

func (p *provider) answer(instead http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.instead = instead
}

func (p *provider) asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asks
}

// hang has requests for keys wait until they are let go; each says that it is there.
func (p *provider) hang(t *testing.T) (there chan struct{}, release func()) {
	t.Helper()
	there, gone := make(chan struct{}, 100), make(chan struct{})
	var released atomic.Bool
	release = func() {
		if !released.Swap(true) {
			close(gone)
		}
	}
	t.Cleanup(release) // before the provider closes, which waits for its requests
	p.answer(func(w http.ResponseWriter, _ *http.Request) {
		there <- struct{}{}
		<-gone
		p.mu.Lock()
		defer p.mu.Unlock()
		_ = json.NewEncoder(w).Encode(p.keySet())
	})
	return there, release
}

// keySet is the provider's key set; the caller holds the lock.
func (p *provider) keySet() jose.JSONWebKeySet {
	return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: p.id, Algorithm: "ES256", Use: "sig"}}}
}

// at trusts one provider, at a time that the test says.
func (p *provider) at(t *testing.T) (a *access.Access, ahead *atomic.Int64) {
	t.Helper()
	a = must(t, fmt.Sprintf("issuers: [{name: corp, issuer: '%s', audience: txcoord}]", p.URL))
	a.SetTimeout(time.Minute)
	ahead, start := new(atomic.Int64), time.Now()
	a.SetClock(func() time.Time { return start.Add(time.Duration(ahead.Load())) })
	return a, ahead
}

// showFor shows a token, and has so much time for it.
func showFor(t *testing.T, d time.Duration, a *access.Access, token string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	_, err := a.Authenticate(ctx, access.Proof{Authorization: "Bearer " + token})
	return err
}

// Keys that are known stay until others were read; a token of a key that is not known
// may be good, as long as the issuer does not say.
func TestKeysAreReplacedByKeysOnly(t *testing.T) {
	for what, bad := range badKeys {
		t.Run(what, func(t *testing.T) {
			p := newProvider(t)
			a, ahead := p.at(t)
			a.SetPatience(time.Minute)
			token := p.token(t, nil)
			p.answer(bad)
			if _, err := show(t, a, token); !errors.Is(err, access.ErrUnavailable) || strings.Contains(err.Error(), theirs) {
				t.Errorf("before there are keys: %.300v", err)
			}
			p.answer(nil)
			if _, err := show(t, a, token); err != nil {
				t.Fatal(err)
			}
			p.answer(bad)
			for range 2 {
				before := p.asked()
				ahead.Add(int64(20 * time.Minute)) // and the issuer is waited for
				if _, err := show(t, a, token); err != nil {
					t.Errorf("renewed: %.300v", err)
				}
				if p.asked() == before {
					t.Error("the keys were not renewed")
				}
			}
			p.rotate(t, "two")
			if _, err := show(t, a, p.token(t, nil)); !errors.Is(err, access.ErrUnavailable) || strings.Contains(err.Error(), theirs) {
				t.Errorf("a new key: %.300v", err)
			}
			p.answer(nil)
			if _, err := show(t, a, p.token(t, nil)); err != nil {
				t.Errorf("back: %v", err)
			}
			if _, err := show(t, a, token); !errors.Is(err, access.ErrUnauthenticated) {
				t.Errorf("the old key: %v", err)
			}
		})
	}
}

// One key that is not understood does not take the others away.
func TestAKeySetWithNewKinds(t *testing.T) {
	p := newProvider(t)
	a, _ := p.at(t)
	token := p.token(t, nil)
	p.answer(func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		good, err := p.keySet().Keys[0].MarshalJSON()
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(w, `{"keys": [{"kty": "new", "kid": "one"}, {"kty": "EC", "crv": "P-1"}, %s]}`, good)
	})
	if _, err := show(t, a, token); err != nil {
		t.Error(err)
	}
}

// While keys are renewed nobody waits for an issuer that hangs, except a moment after a
// time without calls, and then not to the end of his own time.
func TestARenewalHangs(t *testing.T) {
	p := newProvider(t)
	a, ahead := p.at(t)
	token := p.token(t, nil)
	if _, err := show(t, a, token); err != nil {
		t.Fatal(err)
	}
	there, release := p.hang(t)
	a.SetPatience(2 * time.Hour)
	ahead.Store(int64(10*time.Minute + 30*time.Second))
	if _, err := show(t, a, token); err != nil {
		t.Errorf("just due: %v", err)
	}
	<-there
	before := p.asked()
	ahead.Store(int64(20 * time.Minute))
	if err := showFor(t, 100*time.Millisecond, a, token); err != nil {
		t.Errorf("long due, and little time: %v", err)
	}
	brief, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if d := a.Moment(brief); d <= 0 || d > 30*time.Minute {
		t.Errorf("who has an hour waits %v", d)
	}
	a.SetPatience(0)
	ahead.Store(int64(21 * time.Minute))
	if _, err := show(t, a, token); err != nil {
		t.Errorf("long due: %v", err)
	}
	if p.asked() != before {
		t.Errorf("%d more requests while one is under way", p.asked()-before)
	}
	p.rotate(t, "two")
	p.answer(nil)
	release()
	eventually(t, "the new key is taken", func() bool { _, err := show(t, a, p.token(t, nil)); return err == nil })
}

// Who comes when no keys are known waits for them, at most as long as he has time.
func TestTheFirstKeysHang(t *testing.T) {
	p := newProvider(t)
	a, _ := p.at(t)
	token := p.token(t, nil)
	there, release := p.hang(t)
	if err := showFor(t, 10*time.Millisecond, a, token); !errors.Is(err, access.ErrUnavailable) {
		t.Errorf("hangs: %v", err)
	}
	<-there // the ask goes on without its caller
	before, joined := p.asked(), make(chan error, 1)
	go func() { joined <- showFor(t, time.Minute, a, token) }()
	release()
	if err := <-joined; err != nil {
		t.Errorf("who waits for it: %v", err)
	}
	if p.asked() != before {
		t.Error("it was asked again")
	}
}

func TestATokenOfAnUnknownKey(t *testing.T) {
	p, other := newProvider(t), newProvider(t)
	a, _ := p.at(t)
	other.rotate(t, "strange")
	strange := other.token(t, map[string]any{"iss": p.URL})
	if _, err := show(t, a, p.token(t, nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := show(t, a, strange); !errors.Is(err, access.ErrUnauthenticated) {
		t.Errorf("the issuer does not have it: %v", err)
	}
	p.answer(badKeys["away"])
	if _, err := show(t, a, strange); !errors.Is(err, access.ErrUnavailable) {
		t.Errorf("the issuer is away: %v", err)
	}
	other.rotate(t, "one")
	if _, err := show(t, a, other.token(t, map[string]any{"iss": p.URL})); !errors.Is(err, access.ErrUnauthenticated) {
		t.Errorf("a forged one of a known key, while it is away: %v", err)
	}
	p.hang(t)
	if err := showFor(t, 10*time.Millisecond, a, strange); !errors.Is(err, access.ErrUnavailable) {
		t.Errorf("the issuer hangs: %v", err)
	}
}

// Anybody can have the issuer asked, so it is asked a few times only.
func TestStrangersHaveTheIssuerAsked(t *testing.T) {
	p, other := newProvider(t), newProvider(t)
	other.rotate(t, "strange")
	strange := other.token(t, map[string]any{"iss": p.URL})
	for what, c := range map[string]struct {
		keys http.HandlerFunc
		want error
	}{"it answers": {nil, access.ErrUnauthenticated}, "it is away": {badKeys["away"], access.ErrUnavailable}} {
		a, ahead := p.at(t)
		p.answer(nil)
		good := p.token(t, nil)
		if _, err := show(t, a, good); err != nil {
			t.Fatal(err)
		}
		p.answer(c.keys)
		flood := func() int {
			before := p.asked()
			for range 50 {
				if _, err := show(t, a, strange); !errors.Is(err, c.want) {
					t.Fatalf("%s: %v", what, err)
				}
			}
			return (p.asked() - before) / 2 // the discovery document, and the keys
		}
		if n := flood(); n != access.AsksInARow-1 {
			t.Errorf("%s: asked %d times in a row", what, n)
		}
		ahead.Add(int64(access.AskEvery))
		if n := flood(); n != 1 {
			t.Errorf("%s: asked %d times a while later", what, n)
		}
		if _, err := show(t, a, good); err != nil {
			t.Errorf("%s: a good token: %v", what, err)
		}
	}
}

// An answer without an end is not read to it.
func TestAKeySetWithoutAnEnd(t *testing.T) {
	const most = 128 << 20
	p := newProvider(t)
	a, _ := p.at(t)
	sent := make(chan int, 10)
	p.answer(func(w http.ResponseWriter, _ *http.Request) {
		n := 0
		defer func() { sent <- n }()
		for chunk := make([]byte, 64<<10); n < most; n += len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	_, err := show(t, a, p.token(t, nil))
	if !errors.Is(err, access.ErrUnavailable) || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("answered %v", err)
	}
	if n := <-sent; n >= most {
		t.Errorf("%d bytes were taken", n)
	}
}

// What was found out with keys goes with them.
func TestATokenThatWasCheckedJustBeforeItsKeyWasTakenAway(t *testing.T) {
	p := newProvider(t)
	a, ahead := p.at(t)
	token := p.token(t, nil)
	if _, err := show(t, a, token); err != nil {
		t.Fatal(err)
	}
	ahead.Store(int64(10*time.Minute - 2*time.Second))
	if _, err := show(t, a, token); err != nil {
		t.Fatal(err)
	}
	p.rotate(t, "two")
	ahead.Store(int64(10*time.Minute + time.Second))
	if _, err := show(t, a, p.token(t, nil)); err != nil {
		t.Fatal(err)
	}
	if who, err := show(t, a, token); !errors.Is(err, access.ErrUnauthenticated) {
		t.Errorf("3 s after it was checked: %v, %v", who, err)
	}
}

// A file that is changed elsewhere does not take the keys of its issuers away, which may
// be away at that time; one whose issuer is changed does.
func TestReloadKeepsKeys(t *testing.T) {
	p := newProvider(t)
	path := filepath.Join(t.TempDir(), "access.yaml")
	text := fmt.Sprintf("issuers: [{name: corp, issuer: '%s', audience: txcoord}]\n", p.URL)
	write(t, path, text)
	a, err := access.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	token := p.token(t, nil)
	if _, err := show(t, a, token); err != nil {
		t.Fatal(err)
	}
	p.set(true)
	replace := func(with string, want error) {
		t.Helper()
		write(t, path, with)
		if changed, err := a.Reload(); !changed || err != nil {
			t.Fatal(changed, err)
		}
		if _, err := show(t, a, token); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	replace(text+roles, nil)
	replace(strings.Replace(text, "audience: txcoord", "audience: other", 1), access.ErrUnavailable)
}
