//go:build unix

package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Request is one that passes an HTTPFaults.
type Request struct {
	// Operation is the one of the API, such as PutItem, or the HTTP method where the
	// request names none.
	Operation string
	Path      string
	Body      []byte
}

// Fate is what becomes of a request; the zero value lets it pass.
type Fate struct {
	// Delay is how long the request waits before anything else happens to it. It goes
	// on although the client may have given up.
	Delay time.Duration
	// Body, if set, is sent on in place of the request's.
	Body []byte
	// Instead answers, and the server never sees the request.
	Instead *Reply
	// Twice sends it on twice, as a proxy does that hears nothing, and passes the
	// second answer on.
	Twice bool
	// After replaces the answer of the server, which has carried the request out.
	After *Reply
	// Done is called when the server has carried the request out, and keeps the answer
	// back until it returns.
	Done func()
	// Lost cuts the connection instead of passing the server's answer on.
	Lost bool
}

// Reply is an answer in the server's place.
type Reply struct {
	Status int
	Body   string
	// Header is added to.
	Header http.Header
}

// DynamoError is an error of the DynamoDB API.
func DynamoError(status int, name, message string) *Reply {
	return &Reply{Status: status, Body: fmt.Sprintf(`{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":%q}`, name, message)}
}

// HTTPFaults is a proxy that lets a hook decide the fate of every request.
type HTTPFaults struct {
	// URL is its address, to be used in place of the server's.
	URL string

	target string
	hook   atomic.Pointer[func(Request) Fate]
	client *http.Client
}

// NewHTTPFaults puts a proxy in front of a server, for the duration of a test.
func NewHTTPFaults(t testing.TB, target string) *HTTPFaults {
	f := &HTTPFaults{target: target, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}}}
	f.Decide(func(Request) Fate { return Fate{} })
	s := httptest.NewUnstartedServer(http.HandlerFunc(f.serve))
	s.Start()
	f.URL = s.URL
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		f.client.CloseIdleConnections()
	})
	return f
}

// Decide sets the hook, which is called by many goroutines at once.
func (f *HTTPFaults) Decide(hook func(Request) Fate) { f.hook.Store(&hook) }

func (f *HTTPFaults) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // The client is gone.
	}
	fate := (*f.hook.Load())(describe(r, body))
	time.Sleep(fate.Delay)
	if fate.Body != nil {
		body = fate.Body
	}
	if fate.Instead != nil {
		fate.Instead.write(w)
		return
	}
	// What was passed on is carried out, whatever the client does meanwhile.
	resp, answer, err := f.pass(r, body)
	if fate.Twice && err == nil {
		resp, answer, err = f.pass(r, body)
	}
	if fate.Done != nil {
		fate.Done()
	}
	switch {
	case err != nil, fate.Lost:
		panic(http.ErrAbortHandler) // net/http's way to cut a connection.
	case fate.After != nil:
		fate.After.write(w)
	default:
		copyHeader(w.Header(), resp.Header)
		w.WriteHeader(resp.StatusCode)
		_, _ = w.Write(answer) // The client may be gone.
	}
}

func describe(r *http.Request, body []byte) Request {
	op := r.Method
	if _, name, ok := strings.Cut(r.Header.Get("X-Amz-Target"), "."); ok {
		op = name
	}
	return Request{Operation: op, Path: r.URL.Path, Body: body}
}

func (f *HTTPFaults) pass(r *http.Request, body []byte) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), r.Method, f.target+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	copyHeader(req.Header, r.Header)
	req.Host = r.Host
	req.Header.Del("Content-Length") // It follows from the body.
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	answer, err := io.ReadAll(resp.Body)
	return resp, answer, errors.Join(err, resp.Body.Close())
}

func copyHeader(to, from http.Header) {
	for name, values := range from {
		to[name] = values
	}
}

func (r *Reply) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	copyHeader(w.Header(), r.Header)
	w.WriteHeader(r.Status)
	_, _ = io.WriteString(w, r.Body) // The client may be gone.
}
