package coordinator

import (
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"
)

// placeStore is the catalog's own store among the places of trouble; the others are
// URIs.
const placeStore = "store"

// Trouble is a place whose requests fail at present.
type Trouble struct {
	// Place is "store" or a URI.
	Place  string
	Text   string
	Remedy string
	Since  time.Time
}

// troubles are the places whose last request failed, as far as that was seen.
type troubles struct {
	mu sync.Mutex
	m  map[string]Trouble
}

// note says how a request to a place ended. An ended context says nothing.
func (t *troubles) note(place string, err error, now time.Time) {
	if isContext(err) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		delete(t.m, place)
		return
	}
	if t.m == nil {
		t.m = map[string]Trouble{}
	}
	was, there := t.m[place]
	if !there {
		was.Since = now
	}
	was.Place = place
	was.Text, was.Remedy = ailment(err)
	if place == placeStore {
		was.Text = "the catalog's store cannot be written: " + was.Text
	} else {
		was.Text = "the object store of " + place + " cannot be used: " + was.Text
	}
	t.m[place] = was
}

// of is the trouble at a place; nil if its last request did what it should.
func (t *troubles) of(place string) *Trouble {
	t.mu.Lock()
	defer t.mu.Unlock()
	if tr, ok := t.m[place]; ok {
		return &tr
	}
	return nil
}

func (t *troubles) list() (out []Trouble) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, tr := range t.m {
		out = append(out, tr)
	}
	slices.SortFunc(out, func(a, b Trouble) int { return compare(a.Place, b.Place) })
	return out
}

// ailment is what can be told of a failed request without a driver's own words.
func ailment(err error) (text, remedy string) {
	for _, a := range []struct {
		errno        syscall.Errno
		text, remedy string
	}{
		{syscall.ENOSPC, "no space is left on the disk", "make room there; what waits goes on by itself"},
		{syscall.EDQUOT, "the disk quota is used up", "make room there, or raise the quota; what waits goes on by itself"},
		{syscall.EROFS, "the file system is read-only", "mount it for writing"},
		{syscall.EACCES, "permission is denied", "let the server's user write there"},
		{syscall.EPERM, "permission is denied", "let the server's user write there"},
		{syscall.EIO, "the disk fails", "see the system's log, and replace the disk"},
		{syscall.EFBIG, "a file may not grow any further", "raise the limit on file sizes"},
		{syscall.ECONNREFUSED, "the connection is refused", "see that it runs, and that its address is right"},
	} {
		if errors.Is(err, a.errno) {
			return a.text, a.remedy
		}
	}
	return "its requests fail; the server's log has the reason", "see that it runs and can be reached"
}
