package access_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator/access"
)

// Who was let in is not let in again for that alone: not when what was shown has ended, nor
// when the file no longer knows it.
func TestNothingCountsForHavingCounted(t *testing.T) {
	p := newProvider(t)
	end := time.Now().Add(30 * time.Second).Truncate(time.Second)
	secret, entry := access.NewToken("etl", &end)
	static := access.Proof{Authorization: "Bearer " + secret}
	jwt := access.Proof{Authorization: "Bearer " + p.token(t, map[string]any{"exp": end.Unix()})}
	cert := access.Proof{Certificate: &x509.Certificate{Subject: pkix.Name{CommonName: "etl"}, NotAfter: end}}.OfConnection()
	known := fmt.Sprintf("tokens: [{principal: etl, sha256: %s, not_after: %s}]\n", entry.SHA256, end.UTC().Format(time.RFC3339))
	issuer := "issuers: [{name: corp, issuer: '" + p.URL + "', audience: txcoord}]\n"

	path := filepath.Join(t.TempDir(), "access.yaml")
	write(t, path, known+issuer)
	a, err := access.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	a.SetClock(func() time.Time { return now })
	letIn := func(when string, proof access.Proof, want bool) {
		t.Helper()
		for range 2 { // at first, and when it is known
			who, err := a.Authenticate(t.Context(), proof)
			if (err == nil) != want || err != nil && !errors.Is(err, access.ErrUnauthenticated) {
				t.Errorf("%s: %v, %v", when, who, err)
			}
		}
	}
	reload := func(file string) {
		t.Helper()
		write(t, path, file)
		if changed, err := a.Reload(); err != nil || !changed {
			t.Fatal(changed, err)
		}
	}
	for name, proof := range map[string]access.Proof{"a static token": static, "a token of an issuer": jwt, "a certificate": cert} {
		letIn(name, proof, true)
	}
	reload(known) // the issuer is gone
	letIn("the issuer is gone", jwt, false)
	letIn("it stays", static, true)
	reload(issuer)
	letIn("it stands there no more", static, false)
	letIn("it stands there again", jwt, true)
	reload("issuers: [{name: corp, issuer: '" + p.URL + "', audience: another}]\n")
	letIn("it is for somebody else", jwt, false)
	reload(known + issuer)
	for name, proof := range map[string]access.Proof{"a static token": static, "a token of an issuer": jwt, "a certificate": cert} {
		now = end.Add(-time.Second)
		letIn(name+" before its end", proof, true)
		now = end.Add(time.Second)
		letIn(name+" after its end", proof, false)
	}
}
