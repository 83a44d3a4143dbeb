package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestTop prints once where there is no terminal.
func TestTop(t *testing.T) {
	s := startServer(t, "--limit", "freeze_after=1h")
	s.table("orders")
	s.table("items")
	inTheWay := filepath.Join(s.warehouse, "orders", "_delta_log", "00000000000000000001.json")
	if err := os.Mkdir(inTheWay, 0o755); err != nil {
		t.Fatal(err)
	}
	s.ok("commit", s.transaction("first", 1, "a", "orders"), "--wait-limit", "100ms")
	s.ok("tables", "freeze", "items", "--reason", "audit")
	s.fails(2, []string{"top", "--interval", "1ms"}, "--interval")
	s.fails(2, []string{"top", "--tables", "-1"}, "--tables")
	got := s.ok("top", "--interval", "100ms")
	for _, want := range []string{"0.0 commits", "conflicts", "1 round, the oldest for", "backlog", "manifests", "2, 1 frozen", "orders", "frozen:operator"} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "\x1b") || strings.Index(got, "orders") > strings.Index(got, "items") {
		t.Errorf("%q", got)
	}
	var one struct {
		PerSecond map[string]float64
		Tables    []struct{ Table, OpenSince string }
		Status    struct{ Tables int }
	}
	if err := json.Unmarshal([]byte(s.ok("top", "--interval", "100ms", "--tables", "1", "-o", "json")), &one); err != nil {
		t.Fatal(err)
	}
	if _, ok := one.PerSecond["commits"]; !ok || len(one.Tables) != 1 || one.Tables[0].Table != "orders" || one.Tables[0].OpenSince == "" || one.Status.Tables != 2 {
		t.Errorf("%+v", one)
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
}

// pictures is what a terminal got.
type pictures struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (p *pictures) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.Write(b)
}

func (p *pictures) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.String()
}

// TestTopLive: pictures on the other screen, cut to its size, until q; a server that is
// not there is said, and no end.
func TestTopLive(t *testing.T) {
	s := startServer(t)
	s.table("orders")
	for server, want := range map[string]string{s.env["TXCOORD_SERVER"]: "commits", freeAddress(t): "no server at"} {
		screen := &pictures{}
		session := &session{out: screen, err: &bytes.Buffer{}, in: strings.NewReader(""), env: nothing}
		session.Server, session.Output, session.Timeout = server, "table", time.Minute
		keys, ended := make(chan byte), make(chan error, 1)
		go func() {
			ended <- (&topCommand{Interval: time.Hour, Tables: 5}).live(context.Background(), session, keys, func() (int, int) { return 40, 6 })
		}()
		shows := func(n int) {
			s.eventually("a picture is drawn", func() bool { return strings.Count(screen.String(), restOfPage) == n })
		}
		shows(1)
		keys <- 'x' // means nothing
		keys <- ' '
		shows(2)
		keys <- 'q'
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := session.close(); err != nil {
			t.Error(err)
		}
		got := screen.String()
		if !strings.HasPrefix(got, enterScreen+home) || !strings.HasSuffix(got, leaveScreen) || strings.Count(got, home) != 2 || !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
		for _, line := range strings.Split(strings.TrimPrefix(got, enterScreen), "\r\n") {
			if plain := strings.NewReplacer(home, "", endOfLine, "", restOfPage, "", leaveScreen, "").Replace(line); len([]rune(plain)) > 40 {
				t.Errorf("%q is too wide", plain)
			}
		}
	}
}
