package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	client "github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/coordinator/access"
	"github.com/txcoord/txcoord/coordinator/quota"
)

// Security says who may call a server, and what is written down about it.
type Security struct {
	TLSCert     string `help:"Certificate (PEM) to serve with; it and the key may be replaced while the server runs ($$TXCOORD_TLS_CERT)." environ:"TXCOORD_TLS_CERT" placeholder:"FILE" group:"security" type:"given"`
	TLSKey      string `help:"The certificate's key (PEM) ($$TXCOORD_TLS_KEY)." environ:"TXCOORD_TLS_KEY" placeholder:"FILE" group:"security" type:"given"`
	TLSClientCA string `help:"Authorities (PEM) whose client certificates are taken ($$TXCOORD_TLS_CLIENT_CA)." environ:"TXCOORD_TLS_CLIENT_CA" placeholder:"FILE" group:"security" type:"given"`
	Access      string `help:"Who may call and do what: tokens, issuers, roles, bindings (docs/security.md). It may be replaced while the server runs ($$TXCOORD_ACCESS)." environ:"TXCOORD_ACCESS" placeholder:"FILE" group:"security" type:"given"`
	AuditLog    string `help:"Append a JSON line to this file for every call that asks for more than reading, for every one that is refused for who makes it, and for every one whose request is not read ($$TXCOORD_AUDIT_LOG)." environ:"TXCOORD_AUDIT_LOG" placeholder:"FILE" group:"security" type:"given"`
	Insecure    bool   `help:"Serve on addresses that other machines reach, without encryption or authentication." group:"security"`
}

func (s *Security) validate() error {
	var all []error
	if s.TLSCert != "" && s.TLSKey == "" {
		all = append(all, usage("--tls-key", "", "give the key of --tls-cert"))
	}
	if s.TLSKey != "" && s.TLSCert == "" {
		all = append(all, usage("--tls-cert", "", "give the certificate of --tls-key"))
	}
	if s.TLSClientCA != "" && s.TLSCert == "" {
		all = append(all, usage("--tls-client-ca", s.TLSClientCA, "clients show certificates over TLS only: give --tls-cert and --tls-key, too"))
	}
	return allOf(all...)
}

// reachable says what an address that other machines reach lacks; nil if nothing.
func (s *Security) reachable(flag, listen string) error {
	const safe = "use a loopback address, or say --insecure if the network is safe"
	if s.Insecure || isSocket(listen) || loopback(listen) {
		return nil
	}
	var lacks, give []string
	if s.TLSCert == "" {
		lacks, give = append(lacks, "nothing would be encrypted"), append(give, "give --tls-cert and --tls-key")
	}
	if s.Access == "" {
		lacks, give = append(lacks, "everybody might do everything"), append(give, "say who may do what with --access")
	}
	if len(lacks) == 0 {
		return nil
	}
	return usage(flag, listen, fmt.Sprintf("other machines reach this address, and %s; %s, %s", strings.Join(lacks, ", and "), strings.Join(give, ", and "), safe))
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// guards are what a Security opens.
type guards struct {
	access *access.Access
	tls    *tls.Config
	// http is tls for what speaks HTTP/1.1.
	http  *tls.Config
	audit *slog.Logger
	file  io.Closer
}

func (s *Security) open(log *slog.Logger) (g guards, err error) {
	if s.Access != "" {
		if g.access, err = access.Load(s.Access); err != nil {
			return g, usage("--access", s.Access, strings.TrimLeft(strings.TrimPrefix(err.Error(), "access file"), ": "))
		}
	}
	if s.TLSCert != "" {
		told := func(err error) { log.Error("the TLS files cannot be taken; those before stay in force", "error", err) }
		files := access.TLSFiles{Cert: s.TLSCert, Key: s.TLSKey, ClientCA: s.TLSClientCA, Taken: func(c *x509.Certificate) {
			log.Info("the TLS files were taken over", "subject", c.Subject.String(), "serial", c.SerialNumber.Text(16), "not_after", c.NotAfter)
		}}
		if g.tls, err = access.ServerTLS(files, told); err != nil {
			return g, usage("--tls-cert", s.TLSCert, err.Error())
		}
		files.Protocol, files.Taken = "http/1.1", nil // those are the same files
		if g.http, err = access.ServerTLS(files, told); err != nil {
			return g, usage("--tls-cert", s.TLSCert, err.Error())
		}
	}
	if s.AuditLog != "" {
		f, err := os.OpenFile(s.AuditLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return g, fmt.Errorf("open the audit log: %w", err)
		}
		g.audit, g.file = slog.New(slog.NewJSONHandler(f, nil)), f
	}
	return g, nil
}

// peer connects to other replicas as this one lets others connect to itself, trusting
// the authorities of --tls-ca; nil where there are none. What callers prove goes along
// with their calls, so it has to be encrypted where it leaves the machine. A client
// certificate cannot go along; such calls are carried out here only.
func (g guards) peer(shared bool, ca string, options ...grpc.DialOption) (func(address string) (*grpc.ClientConn, error), error) {
	if !shared {
		return nil, nil
	}
	creds := insecure.NewCredentials()
	if g.tls != nil {
		config, err := access.ClientTLS(ca, "", "")
		if err != nil {
			return nil, usage("--tls-ca", ca, err.Error())
		}
		creds = credentials.NewTLS(config)
	}
	return func(address string) (*grpc.ClientConn, error) {
		if g.access != nil && g.tls == nil && !isSocket(address) && !loopback(address) {
			return nil, client.ErrPlainToken
		}
		return grpc.NewClient(address, append(options, grpc.WithTransportCredentials(creds), grpc.WithDisableRetry())...)
	}, nil
}

func (g guards) close() error {
	if g.file == nil {
		return nil
	}
	return g.file.Close()
}

// accessEvery is how often the access file is looked at.
const accessEvery = 2 * time.Second

// follow takes over changes of the access file until the context ends.
func (g guards) follow(ctx context.Context, log *slog.Logger) {
	if g.access == nil {
		return
	}
	tick := time.NewTicker(accessEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch changed, err := g.access.Reload(); {
		case err != nil:
			log.Error("the access file cannot be taken; the one before stays in force", "error", err)
		case changed:
			log.Info("the access file was taken over")
		}
	}
}

// Credentials are what a client shows, and whom it trusts.
type Credentials struct {
	TLS        bool   `help:"Speak TLS with the server, trusting the system's authorities." name:"tls" group:"security"`
	TLSCA      string `help:"Speak TLS, trusting the authorities of this PEM file ($$TXCOORD_TLS_CA)." name:"tls-ca" environ:"TXCOORD_TLS_CA" placeholder:"FILE" group:"security" type:"given"`
	ClientCert string `help:"Certificate (PEM) to show to the server ($$TXCOORD_CLIENT_CERT)." environ:"TXCOORD_CLIENT_CERT" placeholder:"FILE" group:"security" type:"given"`
	ClientKey  string `help:"Its key (PEM) ($$TXCOORD_CLIENT_KEY)." environ:"TXCOORD_CLIENT_KEY" placeholder:"FILE" group:"security" type:"given"`
	TokenFile  string `help:"File with the token to show; it is read again for each call. Or put the token itself into $$TXCOORD_TOKEN." environ:"TXCOORD_TOKEN_FILE" placeholder:"FILE" group:"security" type:"given"`
}

// tls is nil if nothing asks for it.
func (c *Credentials) tls() (*tls.Config, error) {
	if !c.TLS && c.TLSCA == "" && c.ClientCert == "" && c.ClientKey == "" {
		return nil, nil
	}
	config, err := access.ClientTLS(c.TLSCA, c.ClientCert, c.ClientKey)
	if err != nil {
		return nil, usage("--tls-ca, --client-cert or --client-key", "", err.Error())
	}
	return config, nil
}

// token gives the token for a call; nil if there is none to show.
func (c *Credentials) token(env lookup) func() (string, error) {
	if c.TokenFile != "" {
		return func() (string, error) { return secretIn("--token-file", c.TokenFile) }
	}
	if t, ok := env("TXCOORD_TOKEN"); ok {
		return func() (string, error) { return t, filled("$TXCOORD_TOKEN", "", t) }
	}
	return nil
}

// tokenThere is token, where it gives one now.
func (c *Credentials) tokenThere(env lookup) (func() (string, error), error) {
	token := c.token(env)
	if token == nil {
		return nil, nil
	}
	_, err := token()
	return token, err
}

// secretIn is what a file holds, which a flag names.
func secretIn(flag, file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", usage(flag, file, err.Error())
	}
	secret := strings.TrimSpace(string(b))
	return secret, filled(flag, file, secret)
}

// filled refuses a secret that is none.
func filled(what, value, secret string) error {
	if strings.TrimSpace(secret) == "" {
		return usage(what, value, "it is empty; put the secret there, or leave it away")
	}
	return nil
}

// tell prints an answer that is a sentence for people, and an object for programs.
func (s *session) tell(text string, o object) error {
	if s.Output != "json" {
		return s.say(text)
	}
	b, err := marshal(o)
	if err != nil {
		return err
	}
	return s.say(string(b))
}

// say prints an answer that is text in every format.
func (s *session) say(text string) error {
	_, err := fmt.Fprintln(s.out, text)
	return err
}

type accessCommand struct {
	Token accessTokenCommand `cmd:"" help:"Make a token: it is printed once, with the entry for the server's access file."`
	Check accessCheckCommand `cmd:"" help:"Say what is wrong with an access file, or what it lets a principal do."`
}

type accessTokenCommand struct {
	Principal string        `arg:"" help:"Whom the token stands for; bindings call it token:PRINCIPAL."`
	For       time.Duration `help:"End it after this time." placeholder:"DURATION"`
}

func (c *accessTokenCommand) Run(s *session) error {
	if c.Principal == "" || strings.ContainsFunc(c.Principal, func(r rune) bool { return r <= ' ' || r == '*' || r == '?' }) {
		return usage("PRINCIPAL", c.Principal, "use a name without spaces, * and ?")
	}
	if c.For < 0 {
		return usage("--for", c.For.String(), "give a duration of more than 0")
	}
	var end *time.Time
	if c.For > 0 {
		t := time.Now().Add(c.For).UTC().Truncate(time.Second)
		end = &t
	}
	secret, known := access.NewToken(c.Principal, end)
	entry := fmt.Sprintf("# for the access file, under tokens:\n- principal: %q\n  sha256: %s", known.Principal, known.SHA256)
	if end != nil {
		entry += "\n  not_after: " + end.Format(time.RFC3339)
	}
	switch s.Output {
	case "id":
		s.quiet()
		fmt.Fprintln(s.err, entry) // as it goes into the file
		return s.say(secret)
	case "json":
		b, err := json.Marshal(newToken{secret, known.Principal, known.SHA256, end})
		if err != nil {
			return err
		}
		return s.say(string(b))
	}
	return s.say("token (shown only now): " + secret + "\n\n" + entry)
}

// newToken is a token with its entry for the access file.
type newToken struct {
	Token     string     `json:"token"`
	Principal string     `json:"principal"`
	SHA256    string     `json:"sha256"`
	NotAfter  *time.Time `json:"notAfter,omitempty"`
}

type accessCheckCommand struct {
	File      string `arg:"" help:"The access file."`
	Principal string `help:"Say what this principal may do, such as token:etl." placeholder:"PRINCIPAL"`
	Table     string `help:"On this table; what it may do by its bindings if left out." placeholder:"NAME"`
}

func (c *accessCheckCommand) Run(s *session) error {
	a, err := access.Load(c.File)
	if err != nil {
		return usage("FILE", c.File, err.Error())
	}
	if c.Principal == "" {
		return s.tell(c.File+" is in order", object{{"file", c.File}, {"inOrder", true}})
	}
	who := access.Principal{Names: []string{c.Principal}}
	rights := a.Policy().Rights(who, s.Catalog)
	may, told := c.may(rights)
	own := a.Policy().OwnQuota(who, s.Catalog)
	answer := append(object{{"principal", c.Principal}, {"catalog", s.Catalog}}, told...)
	answer = append(answer, field{"limits", own})
	if !strings.Contains(c.Principal, ":") && c.Principal != access.Anonymous {
		s.note("principals have a kind in front: token:%s is the one of a token, cert:%s of a certificate", c.Principal, c.Principal)
	}
	return s.tell(fmt.Sprintf("%s may %s of catalog %s\n%s", c.Principal, may, s.Catalog, limitsText(own)), answer)
}

// may says what rights allow on the table, or all that they grant if none is named: few
// roles grant anything on every table.
func (c *accessCheckCommand) may(rights *access.Rights) (text string, told object) {
	if c.Table != "" {
		may := slices.DeleteFunc(access.Actions(), func(a access.Action) bool { return !rights.On(c.Table, a) })
		return actionsText(may) + " table " + c.Table, object{{"table", c.Table}, {"actions", may}}
	}
	grants, all := []object{}, []string{}
	for _, g := range rights.Grants() {
		grants = append(grants, object{{"tables", g.Tables}, {"actions", g.Actions}})
		all = append(all, actionsText(g.Actions)+" tables "+strings.Join(g.Tables, ", "))
	}
	if len(all) == 0 {
		all = []string{actionsText(nil) + " any table"}
	}
	return strings.Join(all, "; "), object{{"grants", grants}}
}

func actionsText(all []access.Action) string {
	if len(all) == 0 {
		return "do nothing with"
	}
	var names []string
	for _, a := range all {
		names = append(names, string(a))
	}
	return strings.Join(names, ", ")
}

// limitsText says which limits an access file gives a principal.
func limitsText(own map[string]int64) string {
	if len(own) == 0 {
		return "limits: the server's (--limit principal_...)"
	}
	var all []string
	for _, name := range quota.Names() {
		switch n, ok := own[name]; {
		case !ok:
		case n == 0:
			all = append(all, name+" none")
		default:
			all = append(all, fmt.Sprintf("%s %d", name, n))
		}
	}
	return "limits: " + strings.Join(all, ", ") + "; others are the server's (--limit)"
}
