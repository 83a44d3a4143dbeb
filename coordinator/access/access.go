package access

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.yaml.in/yaml/v3"
)

// ErrUnauthenticated: what the caller showed proves nothing.
var ErrUnauthenticated = errors.New("not authenticated")

// ErrUnavailable: who could say is away; the same call may succeed later.
var ErrUnavailable = errors.New("the issuer cannot be asked")

// file is an access file.
type file struct {
	Tokens   []Token            `yaml:"tokens"`
	Issuers  []Issuer           `yaml:"issuers"`
	Roles    map[string][]Grant `yaml:"roles"`
	Bindings []Binding          `yaml:"bindings"`
	Quotas   []Quota            `yaml:"quotas"`
}

// empty: a file that is being written, or was cut off, says nothing. One that grants
// nothing says so, with an empty list.
func (f *file) empty() bool {
	return f.Tokens == nil && f.Issuers == nil && f.Roles == nil && f.Bindings == nil
}

// Access is what an access file says. The nil Access lets everybody do everything.
// It is safe for concurrent use.
type Access struct {
	path    string
	now     atomic.Pointer[rules]
	stamp   atomic.Pointer[stamp]
	client  *http.Client
	clock   func() time.Time
	refused atomic.Pointer[string]
}

type rules struct {
	policy  *Policy
	tokens  tokens
	issuers []*issuer
	// from is which issuer good tokens say that they are from.
	from origins
}

// issuerOf is the issuer that a token says that it is from; nil if none of ours.
func (r *rules) issuerOf(raw string, hash digest) *issuer {
	if is := r.from.recall(hash); is != nil {
		return is
	}
	name := issuerOf(raw)
	for _, is := range r.issuers {
		if is.Issuer.Issuer == name {
			return is
		}
	}
	return nil
}

// keep goes on with the issuers of the rules before that are still the same, and so
// with the keys that are known of them: they may be away now.
func (r *rules) keep(before *rules) {
	if before == nil {
		return
	}
	for n, is := range r.issuers {
		if at := slices.IndexFunc(before.issuers, func(b *issuer) bool { return b.Issuer == is.Issuer }); at >= 0 {
			r.issuers[n] = before.issuers[at]
		}
	}
}

// stamp is what tells a file from the one that was read; nil inside of none.
type stamp struct{ os.FileInfo }

// is reports whether two are of the same file with the same content.
func (s stamp) is(o stamp) bool {
	if s.FileInfo == nil || o.FileInfo == nil {
		return s.FileInfo == o.FileInfo
	}
	return s.ModTime().Equal(o.ModTime()) && s.Size() == o.Size() && os.SameFile(s.FileInfo, o.FileInfo)
}

// Load reads an access file. Fields that it does not know are refused.
func Load(path string) (*Access, error) {
	a := &Access{path: path, client: &http.Client{Timeout: 10 * time.Second}, clock: time.Now}
	if err := a.load(); err != nil {
		return nil, err
	}
	return a, nil
}

func (a *Access) load() error {
	info, err := os.Stat(a.path)
	if err != nil {
		return fmt.Errorf("access file: %w", err)
	}
	raw, err := os.ReadFile(a.path)
	if err != nil {
		return fmt.Errorf("access file: %w", err)
	}
	r, err := parse(raw, a.client)
	if err != nil {
		return fmt.Errorf("access file %s: %w", a.path, err)
	}
	r.keep(a.now.Load())
	a.now.Store(r)
	a.stamp.Store(&stamp{info})
	return nil
}

func parse(raw []byte, client *http.Client) (*rules, error) {
	var f file
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return nil, inWords(err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one document in it; write all into the first")
	}
	if f.empty() {
		return nil, errors.New("says nothing of tokens, issuers, roles or bindings; write who may do what (docs/security.md), or `roles: {}` if nobody may do anything")
	}
	policy, err := newPolicy(f.Roles, f.Bindings)
	if err != nil {
		return nil, err
	}
	if err := checkQuotas(f.Quotas, f.Roles); err != nil {
		return nil, err
	}
	policy.quotas = f.Quotas
	r := &rules{policy: policy}
	if r.tokens, err = newTokens(f.Tokens); err != nil {
		return nil, err
	}
	taken := map[string]bool{"token": true, "cert": true, "unix": true, Anonymous: true}
	for i, is := range f.Issuers {
		if err := is.check(fmt.Sprintf("issuers[%d]", i), taken); err != nil {
			return nil, err
		}
		r.issuers = append(r.issuers, &issuer{Issuer: is, client: client, patience: patience})
	}
	return r, nil
}

// Reload reads the file again if it has changed. What is wrong with it is returned
// once, and the file before it stays in force.
func (a *Access) Reload() (changed bool, err error) {
	if a == nil {
		return false, nil
	}
	info, err := os.Stat(a.path)
	if err == nil && a.stamp.Load().is(stamp{info}) {
		return false, nil
	}
	if err = a.load(); err == nil {
		a.refused.Store(nil)
		return true, nil
	}
	text := err.Error()
	if before := a.refused.Swap(&text); before != nil && *before == text {
		return false, nil
	}
	return false, err
}

// Policy is the one in force.
func (a *Access) Policy() *Policy {
	if a == nil {
		return nil
	}
	return a.now.Load().policy
}

// Proof is what a caller showed.
type Proof struct {
	// Authorization is the value of the header of that name; empty if none was sent.
	Authorization string
	// Certificate is the client's, if its chain was verified.
	Certificate *x509.Certificate
	// UID is the user at the other end of a Unix socket; nil if there is none.
	UID *uint32

	// peer is whom the connection alone proves, if that was worked out.
	peer Principal
}

// OfConnection works out once whom the connection alone proves, for all its calls: a proof
// with it in place of p says the same.
func (p Proof) OfConnection() Proof {
	p.peer = p.atOtherEnd()
	return p
}

func (p *Proof) atOtherEnd() Principal {
	switch {
	case len(p.peer.Names) > 0:
		return p.peer
	case p.Certificate != nil:
		return certificate(p.Certificate)
	case p.UID != nil:
		return Principal{Names: []string{fmt.Sprintf("unix:%d", *p.UID)}}
	}
	return Principal{Names: []string{Anonymous}}
}

// Authenticate says who showed a proof. Who shows a wrong one is refused, and not
// taken for somebody who showed none.
func (a *Access) Authenticate(ctx context.Context, p Proof) (Principal, error) {
	if p.Authorization != "" {
		return a.bearer(ctx, p.Authorization)
	}
	if c := p.Certificate; c != nil && a.time().After(c.NotAfter) { // it was good when the connection was made
		return Principal{}, fmt.Errorf("%w: the client certificate ended at %s; connect again, with another one", ErrUnauthenticated, c.NotAfter.Format(time.RFC3339))
	}
	return p.atOtherEnd(), nil
}

func (a *Access) time() time.Time {
	if a == nil {
		return time.Now()
	}
	return a.clock()
}

func (a *Access) bearer(ctx context.Context, header string) (Principal, error) {
	scheme, secret, ok := strings.Cut(header, " ")
	if secret = strings.TrimSpace(secret); !ok || !strings.EqualFold(scheme, "bearer") || secret == "" {
		return Principal{}, fmt.Errorf("%w: the authorization header wants `Bearer TOKEN`", ErrUnauthenticated)
	}
	if a == nil {
		return Principal{}, fmt.Errorf("%w: this server knows no tokens; start it with --access", ErrUnauthenticated)
	}
	r, hash := a.now.Load(), hashToken(secret)
	if strings.HasPrefix(secret, tokenPrefix) {
		return r.tokens.principal(hash, a.clock())
	}
	is := r.issuerOf(secret, hash)
	if is == nil {
		return Principal{}, fmt.Errorf("%w: the token is not known", ErrUnauthenticated)
	}
	who, err := is.principal(ctx, secret, hash, a.clock())
	if err == nil {
		r.from.remember(hash, is)
	}
	return who, err
}

// certificate names a client by everything that its certificate vouches for.
func certificate(c *x509.Certificate) Principal {
	var p Principal
	for _, u := range c.URIs {
		p.Names = append(p.Names, "cert:"+u.String())
	}
	for _, d := range c.DNSNames {
		p.Names = append(p.Names, "cert:"+d)
	}
	if c.Subject.CommonName != "" {
		p.Names = append(p.Names, "cert:"+c.Subject.CommonName)
	}
	if len(p.Names) == 0 {
		p.Names = []string{"cert:serial-" + c.SerialNumber.Text(16)}
	}
	return p
}
