package client

import (
	"context"
	"errors"
	"net"
	"strings"
)

// ErrPlainToken: a token would go over the network in plain text. Set
// Options.Credentials.
var ErrPlainToken = errors.New("a token would go out in plain text")

// bearer shows a token with every call.
type bearer struct {
	token func() (string, error)
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := b.token()
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(token) == "" { // and the caller is not anonymous instead
		return nil, errors.New("the token of Options.Token is empty")
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials. Dial has seen to
// it that the connection is encrypted, or does not leave the machine.
func (bearer) RequireTransportSecurity() bool { return false }

// local reports whether a target is this machine, whatever a name server says.
func local(target string) bool {
	if strings.HasPrefix(target, "unix:") || strings.HasPrefix(target, "unix-abstract:") {
		return true
	}
	_, address, ok := strings.Cut(target, ":///")
	if !ok {
		address = target
	}
	for _, one := range strings.Split(address, ",") { // ipv4:a,b and ipv6:a,b
		one = strings.TrimPrefix(strings.TrimPrefix(one, "ipv4:"), "ipv6:")
		host, _, err := net.SplitHostPort(one)
		if err != nil {
			host = one
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return false
		}
	}
	return true
}
