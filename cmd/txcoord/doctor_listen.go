package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"

	"github.com/alecthomas/kong"

	"github.com/txcoord/txcoord/coordinator/access"
)

// asked is which server doctor asks, and what said so.
type asked struct{ address, from string }

func (a asked) String() string { return a.address + " (" + a.from + ")" }

// serverGiven is what named the server: the flag, the variable, or nothing.
func serverGiven(ctx *kong.Context, env lookup) string {
	for _, p := range ctx.Path {
		if p.Flag != nil && p.Flag.Name == "server" && !p.Resolved {
			return "--server"
		}
	}
	if v, ok := env("TXCOORD_SERVER"); ok && v != "" {
		return "$TXCOORD_SERVER"
	}
	return ""
}

// whom says which server to ask: the one that was named; else the one that the configuration
// is of, at its listen; else the default. false: that one's address cannot be known. c is nil
// where there is no configuration, or none that makes sense.
func (x *examination) whom(c *Config, file string, settings []setting) bool {
	x.asked = asked{withoutPassword(x.s.Server), x.s.serverFrom}
	for _, v := range settings {
		if name, ok := v.value.(string); ok && v.name == "catalog" {
			x.s.Catalog = name
		}
	}
	if x.asked.from != "" {
		return true
	}
	if x.asked.from = "the default of --server"; c == nil {
		return true
	}
	from := "listen of " + file
	for _, v := range settings {
		if v.name == "listen" && v.from != "file" {
			from = "listen, " + v.from
		}
	}
	address, ok := dialable(c.Listen)
	if !ok {
		x.asked = asked{}
		x.add(severityNote, "server", c.Listen, "the server was not asked: it takes any free port ("+from+")", "name it with --server; its log says where it listens")
		return false
	}
	x.asked, x.s.Server = asked{withoutPassword(address), from}, address
	x.s.trust, ok = x.trusts(c)
	return ok
}

// trusts is how to speak with a server of this configuration, where no flag says that: with
// TLS if it does, trusting just its own certificate. false: that cannot be read.
func (x *examination) trusts(c *Config) (*tls.Config, bool) {
	if c.TLSCert == "" || x.s.TLS || x.s.TLSCA != "" {
		return nil, true
	}
	config, err := access.ClientTLS(c.TLSCert, x.s.ClientCert, x.s.ClientKey)
	if err != nil {
		x.failed("server", x.asked.address, usage("tls-cert, --client-cert or --client-key", "", err.Error()))
		return nil, false
	}
	config.ServerName = certified(c.TLSCert)
	x.asked.from += ", with its tls-cert"
	return config, true
}

// certified is a name that a certificate is for: a server may be asked by another one here,
// and is known by the certificate itself. Empty if there is none.
func certified(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return ""
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return ""
	case len(cert.DNSNames) > 0:
		return cert.DNSNames[0]
	case len(cert.IPAddresses) > 0:
		return cert.IPAddresses[0].String()
	}
	return ""
}

// dialable is where a client on the same machine reaches a server that listens somewhere;
// false if the system chooses its port.
func dialable(listen string) (string, bool) {
	if isSocket(listen) {
		return listen, true
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port == "0" {
		return "", false
	}
	switch ip := net.ParseIP(host); {
	case host == "", ip != nil && ip.IsUnspecified() && ip.To4() != nil:
		host = "127.0.0.1"
	case ip != nil && ip.IsUnspecified():
		host = "::1"
	}
	return net.JoinHostPort(host, port), true
}

// asks is the line of the report about it.
func (x *examination) asks() string {
	if x.asked.address == "" {
		return "no server"
	}
	return fmt.Sprint(x.asked)
}
