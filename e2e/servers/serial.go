//go:build unix

package servers

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// front is a proxy that makes deletes of a server of the S3 API exclude all other
// requests for the same key. It passes the Host header on as it is, since that is
// signed.
type front struct {
	// addr is where it listens, also after it was closed and opened again.
	addr   string
	serial *serial
	proxy  *httputil.ReverseProxy
	server *httptest.Server
}

// openFront listens for a server that need not be there yet.
func openFront(target string) (*front, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, fmt.Errorf("put a proxy in front of %s: %w", target, err)
	}
	s := &serial{next: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}, keys: map[string]*keyLock{}}
	f := &front{addr: "127.0.0.1:0", serial: s}
	f.proxy = &httputil.ReverseProxy{
		Transport: s,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = u.Scheme, u.Host
			r.Out.URL.RawQuery = r.In.URL.RawQuery
			r.Out.Host = r.In.Host
		},
		// A server that is gone answers nothing.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	return f, f.open()
}

func (f *front) open() error {
	l, err := net.Listen("tcp", f.addr)
	if err != nil {
		return fmt.Errorf("listen for a proxy: %w", err)
	}
	f.addr = l.Addr().String()
	f.server = &httptest.Server{Listener: l, Config: &http.Server{Handler: f.proxy}}
	f.server.Start()
	return nil
}

// close refuses connections from now on. It waits for the requests under way, so the
// server behind has to be gone, or to answer.
func (f *front) close() {
	f.server.CloseClientConnections()
	f.server.Close()
	f.serial.next.CloseIdleConnections()
}

// serial sends requests on to a server of the S3 API. One that deletes an object is
// alone with its key until the server has answered. All others share it.
type serial struct {
	next *http.Transport

	mu   sync.Mutex
	keys map[string]*keyLock
}

// keyLock is there as long as somebody holds it or waits for it.
type keyLock struct {
	sync.RWMutex
	users int
}

// RoundTrip implements http.RoundTripper. A request that was begun is carried out
// although its client may leave: the server does not notice that either, and would go
// on with it beside the next one.
func (s *serial) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.WithContext(context.WithoutCancel(r.Context()))
	keys, deletes, err := touched(r)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		defer s.lock(key, deletes)()
	}
	return s.next.RoundTrip(r)
}

func (s *serial) lock(key string, alone bool) (unlock func()) {
	s.mu.Lock()
	k := s.keys[key]
	if k == nil {
		k = &keyLock{}
		s.keys[key] = k
	}
	k.users++
	s.mu.Unlock()
	release := k.RUnlock
	if alone {
		release = k.Unlock
		k.Lock()
	} else {
		k.RLock()
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		release()
		if k.users--; k.users == 0 {
			delete(s.keys, key)
		}
	}
}

// touched are the keys of a request, each with its bucket before it, in the order in
// which to lock them. What is for a whole bucket has none, but for the deletion of
// many objects, whose list is read here and put back.
func touched(r *http.Request) (keys []string, deletes bool, err error) {
	path := strings.TrimPrefix(r.URL.Path, "/")
	if host, _, _ := net.SplitHostPort(r.Host); strings.HasSuffix(host, "."+Virtual) {
		path = strings.TrimSuffix(host, "."+Virtual) + "/" + path
	}
	bucket, key, _ := strings.Cut(path, "/")
	switch {
	case key != "":
		return []string{bucket + "/" + key}, r.Method == http.MethodDelete, nil
	case r.Method == http.MethodPost && r.URL.Query().Has("delete"):
		keys, err = listed(r)
		for i := range keys {
			keys[i] = bucket + "/" + keys[i]
		}
		return keys, true, err
	default:
		return nil, false, nil
	}
}

// listed are the keys that a deletion of many objects names, each once. One that
// cannot be read is the server's to refuse.
func listed(r *http.Request) ([]string, error) {
	body, err := io.ReadAll(r.Body)
	_ = r.Body.Close() // It was read.
	if err != nil {
		return nil, fmt.Errorf("read what to delete: %w", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var list struct {
		Keys []string `xml:"Object>Key"`
	}
	if xml.Unmarshal(body, &list) != nil {
		return nil, nil
	}
	slices.Sort(list.Keys)
	return slices.Compact(list.Keys), nil
}
