package etcdstore

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// LoadTLS makes a configuration from PEM files. ca holds the authorities that sign
// the members' certificates, the system's if empty; cert and key are the client's
// own, and are read again for each connection, so that they can be renewed.
func LoadTLS(ca, cert, key string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("read certificate authorities: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read certificate authorities: %s holds no PEM certificate", ca)
		}
	}
	if (cert == "") != (key == "") {
		return nil, errors.New("a client certificate goes with its key")
	}
	if cert == "" {
		return config, nil
	}
	load := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("read client certificate: %w", err)
		}
		return &pair, nil
	}
	if _, err := load(); err != nil {
		return nil, err
	}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	return config, nil
}
