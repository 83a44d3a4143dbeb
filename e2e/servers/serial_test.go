//go:build unix

package servers_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/txcoord/txcoord/e2e/servers"
)

// A put for an ETag does not succeed once the object was deleted: versitygw by itself
// lets a quarter of these rounds pass.
func TestPutsSeeDeletes(t *testing.T) {
	t.Parallel()
	server := servers.StartVersity(t)
	client := s3.New(s3.Options{
		BaseEndpoint: &server.Endpoint, Region: server.Region, UsePathStyle: true, Retryer: aws.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider(server.AccessKey, server.SecretKey, ""),
	})
	bucket := server.Bucket(t)
	for what, remove := range map[string]func(ctx context.Context, key string) error{
		"one": func(ctx context.Context, key string) error {
			_, err := client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &bucket, Key: &key})
			return err
		},
		"many": func(ctx context.Context, key string) error {
			out, err := client.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: &bucket, Delete: &types.Delete{
				Objects: []types.ObjectIdentifier{{Key: aws.String("none")}, {Key: &key}},
			}})
			if err == nil && (len(out.Deleted) != 2 || len(out.Errors) != 0) {
				t.Errorf("delete %s: %+v", key, out)
			}
			return err
		},
	} {
		for i := range 100 {
			key := fmt.Sprintf("a b/%s&%d", what, i)
			first, err := client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: strings.NewReader("1"), IfNoneMatch: aws.String("*")})
			if err != nil {
				t.Fatal(err)
			}
			var putErr, removeErr error
			var both sync.WaitGroup
			both.Go(func() {
				_, putErr = client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: strings.NewReader("2"), IfMatch: first.ETag})
			})
			both.Go(func() { removeErr = remove(t.Context(), key) })
			both.Wait()
			if removeErr != nil {
				t.Fatal(removeErr)
			}
			if _, err := client.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: &bucket, Key: &key}); err == nil {
				t.Errorf("%s is there; it was deleted, and the put if it is there ended with %v", key, putErr)
			}
		}
	}
}

// held is a server that answers once it is told to, and knows what it works on.
type held struct {
	t       *testing.T
	arrived chan string
	release chan struct{}

	mu   sync.Mutex
	busy map[string]int
}

// ServeHTTP implements http.Handler. A request whose query says "hold" is held.
func (h *held) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // The test sends little.
	keys := []string{r.URL.Path}
	deletes := r.Method == http.MethodDelete
	if r.Method == http.MethodPost {
		keys, deletes = []string{"/b/k"}, true
	} else if name, ok := strings.CutSuffix(r.Host, ".localhost:80"); ok {
		keys = []string{"/" + name + r.URL.Path}
	}
	h.begin(keys, deletes)
	if r.URL.Query().Has("hold") {
		h.arrived <- r.Method
		<-h.release
	}
	h.end(keys)
}

func (h *held) begin(keys []string, deletes bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range keys {
		if deletes && h.busy[key] > 0 {
			h.t.Errorf("%s is deleted beside %d other requests", key, h.busy[key])
		}
		h.busy[key]++
	}
}

func (h *held) end(keys []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range keys {
		h.busy[key]--
	}
}

// ask sends a request, with a host of its own if there is one.
func ask(ctx context.Context, method, url, host, body string) error {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Host = host
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, url, resp.Status)
	}
	return nil
}

// Deletes wait for a put that the server works on, also when its client has left, and
// nobody waits for another key.
func TestDeletesWait(t *testing.T) {
	t.Parallel()
	for what, remove := range map[string]func(ctx context.Context, url string) error{
		"path": func(ctx context.Context, url string) error { return ask(ctx, http.MethodDelete, url+"/b/k", "", "") },
		"host": func(ctx context.Context, url string) error {
			return ask(ctx, http.MethodDelete, url+"/k", "b.localhost:80", "")
		},
		"many": func(ctx context.Context, url string) error {
			return ask(ctx, http.MethodPost, url+"/b?delete", "", `<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Object><Key>a</Key></Object><Object><Key>k</Key></Object></Delete>`)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			h := &held{t: t, arrived: make(chan string), release: make(chan struct{}), busy: map[string]int{}}
			behind := httptest.NewServer(h)
			t.Cleanup(behind.Close)
			url, users := servers.Front(t, behind.URL)
			ctx, leave := context.WithCancel(t.Context())
			put := make(chan error, 1)
			go func() { put <- ask(ctx, http.MethodPut, url+"/b/k?hold", "", "v") }()
			<-h.arrived
			leave()
			if err := <-put; err == nil {
				t.Error("a put was answered that is held")
			}
			removed := make(chan error, 1)
			go func() { removed <- remove(t.Context(), url) }()
			for end := time.Now().Add(time.Minute); users("b/k") != 2 && time.Now().Before(end); time.Sleep(time.Millisecond) {
			}
			if n := users("b/k"); n != 2 {
				t.Errorf("%d hold or await the key, want the put and the delete", n)
			}
			for _, key := range []string{"/b/other", "/c/k", "/b"} {
				if err := ask(t.Context(), http.MethodDelete, url+key, "", ""); err != nil {
					t.Error(err)
				}
			}
			close(h.release)
			if err := <-removed; err != nil {
				t.Error(err)
			}
			if n := users("b/k"); n != 0 {
				t.Errorf("%d hold the key in the end", n)
			}
		})
	}
}

// Who only reads or writes shares a key.
func TestOthersShareAKey(t *testing.T) {
	t.Parallel()
	h := &held{t: t, arrived: make(chan string), release: make(chan struct{}), busy: map[string]int{}}
	behind := httptest.NewServer(h)
	t.Cleanup(behind.Close)
	url, _ := servers.Front(t, behind.URL)
	answers := make(chan error, 3)
	for _, method := range []string{http.MethodPut, http.MethodPut, http.MethodGet} {
		go func() { answers <- ask(t.Context(), method, url+"/b/k?hold", "", "") }()
		<-h.arrived
	}
	close(h.release)
	for range 3 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
}

// A server that was killed refuses connections, and comes back where it was.
func TestVersityComesBack(t *testing.T) {
	t.Parallel()
	s := servers.StartVersity(t)
	if err := ask(t.Context(), http.MethodGet, s.Endpoint+"/health", "", ""); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	if err := ask(t.Context(), http.MethodGet, s.Endpoint+"/health", "", ""); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("a server that was killed: %v", err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := ask(t.Context(), http.MethodGet, s.Endpoint+"/health", "", ""); err != nil {
		t.Error(err)
	}
}
