package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"google.golang.org/grpc/codes"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// hinted is an error with what to do about it on the command line. Messages of the
// server speak to all clients.
type hinted struct {
	error
	hint string
}

func (e *hinted) Unwrap() error { return e.error }

func hintOf(err error) string {
	var h *hinted
	if errors.As(err, &h) {
		return h.hint
	}
	var e *client.Error
	if !errors.As(err, &e) {
		return ""
	}
	switch e.Reason { // that any command may meet
	case "TABLE_FROZEN":
		name := "NAME"
		if table := e.Frozen.GetTable(); table != "" {
			name = shellWord(table)
		}
		return "Why, since when, and what to do about it: txcoord tables why " + name
	case "CATALOG_NOT_FOUND":
		return "Which one it is: --catalog NAME, or TXCOORD_CATALOG, as the server was started with."
	}
	return ""
}

// tableOfError stands in a hint for the name of the table that the error is about.
const tableOfError = "{table}"

// advise adds the hint for the error's reason, if there is one, or for its reason and rule.
func advise(err error, hints map[string]string) error {
	var e *client.Error
	if !errors.As(err, &e) {
		return err
	}
	hint := cmp.Or(hints[e.Reason+" "+word(e.Conflict.GetRule())], hints[e.Reason])
	if hint == "" {
		return err
	}
	name := "NAME"
	if table := e.Table.GetTable(); table != "" {
		name = shellWord(table)
	}
	return &hinted{err, strings.ReplaceAll(hint, tableOfError, name)}
}

// createHints: the name, or the place, is a table's.
var createHints = map[string]string{
	"TABLE_EXISTS": "To see it: txcoord tables describe " + tableOfError + ". To change its columns or properties: txcoord tables alter " + tableOfError + " --help",
}

func registerHints(name string) map[string]string {
	return map[string]string{
		"NOT_A_TABLE":  "To make a new table there: txcoord tables create " + shellWord(name) + " LOCATION --schema @FILE",
		"TABLE_EXISTS": "To see it: txcoord tables describe " + tableOfError + ". To change its mode: txcoord tables mode " + tableOfError + " open|exclusive",
	}
}

// nextAttempt says how to go on with a key. how is where the number goes.
func nextAttempt(how string) map[string]string {
	return map[string]string{
		"CONFLICT": "This attempt is aborted for good. Read again what the change depends on, and commit as the next attempt; " + how + ".",
		// A path is there, however often it is read again.
		"CONFLICT path_exists": "This attempt is aborted for good. Where the file that is there is another one, write yours under a name of its own, and commit as the next attempt; " + how + ".",
		"EXPIRED":              "This attempt is aborted for good. Commit as the next attempt; " + how + ".",
		"ABORTED":              "This attempt is aborted for good. If the work is still wanted, commit as the next attempt; " + how + ".",
	}
}

// commitHints are nextAttempt for a transaction that is known by its token only: the
// server, which is asked once, knows its key.
func commitHints(ctx context.Context, api *client.Client, token string, err error) map[string]string {
	if !errors.Is(err, client.ErrAborted) {
		return nil
	}
	a, askErr := api.Transactions.GetOutcome(ctx, &txcoordv1.GetOutcomeRequest{Transaction: &txcoordv1.GetOutcomeRequest_Token{Token: token}})
	if askErr != nil {
		return nextAttempt("txcoord tx show --token TOKEN says its key and attempt")
	}
	if a.GetOutcome().GetKey() == "" {
		return nextAttempt("it has no key: txcoord tx begin, and stage anew")
	}
	return nextAttempt(fmt.Sprintf("txcoord tx begin --key %s --attempt %d", shellWord(a.GetOutcome().GetKey()), a.GetOutcome().GetAttempt()+1))
}

var showHints = map[string]string{
	"TRANSACTION_NOT_FOUND": "A final answer, by which an undecided transaction is aborted: txcoord tx show --token TOKEN --resolve; without the token: --key KEY --resolve --begun-after TIME. What is known of it: txcoord tx why ID|KEY|TOKEN",
	"OUTCOME_EXPIRED":       "Name the transaction by --token; or say --begun-after TIME, if you are sure that the key was first used after that time.",
}

// unreached is an error of a call in words.
type unreached struct {
	error
	text string
}

func (e *unreached) Error() string { return e.text }

func (e *unreached) Unwrap() error { return e.error }

// refused says how to show who one is, where nothing was shown, and where that came from
// which was not taken; nil for other errors.
func (s *session) refused(err error, e *client.Error) error {
	if e.Code != codes.PermissionDenied && e.Code != codes.Unauthenticated || errors.Is(err, client.ErrCertificate) || errors.Is(err, client.ErrServerTLS) || errors.Is(err, client.ErrServerPlain) {
		return nil
	}
	name := e.Reason
	if name == "" {
		name = e.Code.String()
	}
	said := &unreached{err, name + ": " + e.Message}
	switch {
	case s.token(s.env) == nil && s.ClientCert == "":
		return &hinted{said, "To show who you are: --token-file FILE (or TXCOORD_TOKEN_FILE), or the token itself in TXCOORD_TOKEN; or --client-cert and --client-key (or TXCOORD_CLIENT_CERT and TXCOORD_CLIENT_KEY)."}
	case e.Code == codes.Unauthenticated && s.TokenFile != "":
		return &hinted{said, "The token is the one in " + s.TokenFile + " (--token-file or TXCOORD_TOKEN_FILE)."}
	case e.Code == codes.Unauthenticated && s.token(s.env) != nil:
		return &hinted{said, "The token is the one in TXCOORD_TOKEN."}
	}
	return nil
}

// explain says it in words when no server answered.
func (s *session) explain(err error) error {
	var e *client.Error
	if !errors.As(err, &e) {
		return err
	}
	if refused := s.refused(err, e); refused != nil {
		return refused
	}
	if e.Reason != "" {
		return err
	}
	switch {
	case errors.Is(err, client.ErrServerTLS):
		return &hinted{
			&unreached{err, "the server at " + s.Server + " speaks TLS, and this command does not"},
			"Say whom to trust: --tls-ca FILE with the authority of its certificate (or TXCOORD_TLS_CA), or --tls for those of the system.",
		}
	case errors.Is(err, client.ErrServerPlain):
		return &hinted{
			&unreached{err, "the server at " + s.Server + " does not speak TLS, and this command does"},
			"Leave out --tls, --tls-ca, --client-cert and --client-key, and their variables; or start the server with --tls-cert and --tls-key.",
		}
	case errors.Is(err, client.ErrCertificate):
		return &hinted{
			&unreached{err, "no TLS with the server at " + s.Server + ": " + tlsCause(e.Message)},
			"Its certificate has to be valid, for this address, and signed by an authority of --tls-ca (--tls: of the system); its own authorities (serve --tls-client-ca) have to have signed --client-cert.",
		}
	}
	host, wrong := hosts(s.Server)
	switch {
	case e.Code == codes.DeadlineExceeded && errors.Is(err, context.DeadlineExceeded):
		return &unreached{err, fmt.Sprintf("no answer from %s within %s (--timeout)", s.Server, s.Timeout)}
	case e.Code != codes.Unavailable:
		return err
	case wrong != "":
		return &unreached{err, fmt.Sprintf("%q is no address of a server; give --server or TXCOORD_SERVER as host:port", wrong)}
	case host != "" && hasAny(e.Message, "no children to pick from", "zero addresses", "no such host", "lookup "):
		return &unreached{err, fmt.Sprintf("no address is known for the host %q; give another --server or TXCOORD_SERVER", host)}
	case isSocket(s.Server) && dialCause(e.Message) == "permission denied":
		return &hinted{
			&unreached{err, "the socket " + s.Server + " is not this user's (permission denied)"},
			"A socket is for the user of its server alone: run this as that user.",
		}
	case hasAny(e.Message, "Error while dialing"):
		return &unreached{err, fmt.Sprintf("no server at %s (%s); start \"txcoord serve\", or give --server or TXCOORD_SERVER", s.Server, dialCause(e.Message))}
	}
	return err
}

// hosts is the host of an address, none of a list of several replicas; or the first of them
// that is no address.
func hosts(server string) (host, wrong string) {
	list := strings.Split(server, ",")
	for _, address := range list {
		var err error
		if host, _, err = net.SplitHostPort(address); err != nil {
			return "", address
		}
	}
	if len(list) > 1 {
		host = ""
	}
	return host, ""
}

func hasAny(s string, parts ...string) bool {
	for _, p := range parts {
		if strings.Contains(s, p) {
			return true
		}
	}
	return false
}

// tlsCause is what gRPC's message says of a certificate.
func tlsCause(message string) string {
	for _, begin := range []string{"x509: ", "remote error: "} {
		if _, cause, ok := strings.Cut(message, begin); ok {
			return strings.Trim(cause, `"`)
		}
	}
	return message
}

// dialCause is the end of gRPC's message: connection refused.
func dialCause(message string) string {
	return strings.Trim(message[strings.LastIndex(message, ": ")+2:], `"`)
}
