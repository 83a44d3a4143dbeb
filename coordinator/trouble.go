package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/objstore"
)

// placeStore is the catalog's own store among the places of trouble; the others are
// URIs.
const placeStore = "store"

// Trouble is a place whose requests fail, or have no answer, at present.
type Trouble struct {
	// Place is "store" or a URI.
	Place  string
	Text   string
	Remedy string
	Since  time.Time

	failure uint64 // the newest
}

// use is what fails at a place. That reading works again says nothing of writing.
type use uint8

const (
	written use = iota
	read
)

var useNames = [...]string{"written", "read"}

// troubles are the places whose last request of a kind failed, as far as that was seen.
type troubles struct {
	mu sync.Mutex
	m  map[troubleAt]Trouble
	// looked has the places at which a request has ended since the start, however.
	looked map[string]bool
	// failures counts those that were noted, and numbers them.
	failures uint64
	// hung are requests that have no answer, and no end.
	hung map[*hang]bool
}

type troubleAt struct {
	place string
	use   use
}

// noteTrouble says how the last request to a place ended. That one fails stands in the log
// where it matters to somebody; that the place works again stands there once.
func (c *Catalog) noteTrouble(place string, use use, err error) {
	if since, over := c.troubles.note(place, use, err, c.cfg.Now()); over {
		c.log.Info("a place works again", "place", place, "what", requestNames[use], "since", since)
	}
}

// note keeps how the last request to a place ended. over: the trouble that was there has gone.
func (t *troubles) note(place string, use use, err error, now time.Time) (since time.Time, over bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := troubleAt{place, use}
	t.lookedLocked(place)
	was, there := t.m[at]
	if err == nil {
		delete(t.m, at)
		return was.Since, there
	}
	if t.m == nil {
		t.m = map[troubleAt]Trouble{}
	}
	if !there {
		was.Since = now
	}
	what := "the object store of " + place
	if place == placeStore {
		what = "the catalog's store"
	}
	text, remedy := ailment(err)
	t.failures++
	was.failure = t.failures
	was.Place, was.Text, was.Remedy = place, fmt.Sprintf("%s cannot be %s: %s", what, useNames[use], text), remedy
	t.m[at] = was
	return was.Since, false
}

// noteWork says how work on a table's log ended. What the log itself is to blame for is
// no trouble of its store.
func (c *Catalog) noteWork(ctx context.Context, uri string, use use, err error) {
	var own *Error
	switch {
	case err == nil:
	case ctx.Err() != nil || !errors.As(err, &own) || own.Reason != ObjectsUnavailable:
		return
	case own.Cause != nil:
		err = own.Cause
	}
	c.noteTrouble(uri, use, err)
}

// of is what does not work at a place; empty if nothing is known.
func (t *troubles) of(place string) (out []Trouble) {
	for _, tr := range t.list() {
		if tr.Place == place {
			out = append(out, tr)
		}
	}
	return out
}

// look notes that a request to a place has ended, whatever it says of the place.
func (t *troubles) look(place string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lookedLocked(place)
}

func (t *troubles) lookedLocked(place string) {
	if t.looked == nil {
		t.looked = map[string]bool{}
	}
	t.looked[place] = true
}

// at is what a list says of a place: whether anything was asked of it since the start, and
// what does not work there; empty if nothing is known.
func (t *troubles) at(place string) (looked bool, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for h := range t.hung {
		if h.at.place == place {
			return true, h.trouble().Text
		}
	}
	for _, use := range []use{read, written} {
		if tr, there := t.m[troubleAt{place, use}]; there {
			return true, tr.Text
		}
	}
	return t.looked[place], ""
}

func (t *troubles) list() (out []Trouble) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, tr := range t.m {
		out = append(out, tr)
	}
	for _, h := range t.oldest() {
		out = append(out, h.trouble())
	}
	slices.SortFunc(out, func(a, b Trouble) int { return compare(a.Place+a.Text, b.Place+b.Text) })
	return out
}

// count is how many places cannot be read, and written, or do not answer that.
func (t *troubles) count() (unread, unput int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := map[troubleAt]bool{}
	for at := range t.m {
		all[at] = true
	}
	for h := range t.hung {
		all[h.at] = true
	}
	for at := range all {
		if at.use == read {
			unread++
		} else {
			unput++
		}
	}
	return unread, unput
}

// storeTroubleAfter is how long the store may fail before calls that wait for it are
// answered.
const storeTroubleAfter = 2 * time.Second

// failed is how many failures were noted so far.
func (t *troubles) failed() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failures
}

// storeTrouble is why calls need not wait for the journal any longer; nil while they
// may. before is what had failed when the call began: that says nothing of it, since
// between two tries the trouble may have ended.
func (c *Catalog) storeTrouble(before uint64) error {
	for _, tr := range c.troubles.of(placeStore) {
		if tr.failure > before && c.cfg.Now().Sub(tr.Since) >= storeTroubleAfter {
			return &Error{
				Reason:     OutcomeUnknown,
				Message:    fmt.Sprintf("%s; %s. What was asked for may still be recorded: repeat the call", tr.Text, tr.Remedy),
				RetryAfter: storeTroubleAfter,
			}
		}
	}
	return nil
}

const unknownAilment = "its requests fail; the server's log has the reason"

// ailment is what can be told of a failed request without a driver's own words.
func ailment(err error) (text, remedy string) {
	for _, a := range []struct {
		errno        syscall.Errno
		text, remedy string
	}{
		{syscall.ENOSPC, "no space is left on the disk", "make room there; what waits goes on by itself"},
		{syscall.EDQUOT, "the disk quota is used up", "make room there, or raise the quota; what waits goes on by itself"},
		{syscall.EROFS, "the file system is read-only", "mount it for writing"},
		{syscall.EACCES, "permission is denied", "let the server's user read and write there; what waits goes on by itself"},
		{syscall.EPERM, "permission is denied", "let the server's user read and write there; what waits goes on by itself"},
		{syscall.EIO, "the disk fails", "see the system's log, and replace the disk"},
		{syscall.EFBIG, "a file may not grow any further", "raise the limit on file sizes"},
		{syscall.ENAMETOOLONG, "a name is too long for the file system", "use shorter names"},
		{syscall.ECONNREFUSED, "the connection is refused", "see that it runs, and that its address is right"},
	} {
		if errors.Is(err, a.errno) {
			return a.text, a.remedy
		}
	}
	var refusal interface {
		error
		Ailment() (text, remedy string)
	}
	if errors.As(err, &refusal) {
		text, remedy = refusal.Ailment()
		return text, goesOn(err, remedy)
	}
	switch {
	case errors.Is(err, lock.ErrAway):
		return "its file was removed, renamed or replaced", "put the file back as it was, and what waits goes on; or stop the server"
	case errors.Is(err, objstore.ErrLinked):
		what := "a folder or file of it"
		if link, ok := errors.AsType[*objstore.LinkError](err); ok {
			what = link.Name
		}
		return what + " is a symbolic link by now, which is not followed", "put what it stands for in its place; what waits goes on by itself"
	case errors.Is(err, objstore.ErrAway):
		return "the folder above all its tables is gone", "mount it, or give it back its name; what waits goes on by itself"
	case errors.Is(err, errMoved), errors.Is(err, objstore.ErrNoFolder):
		return "its folder comes and goes", "put it back, and see who moves it"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, objstore.ErrNoAnswer):
		return "its requests take too long", "see that it runs and can be reached"
	}
	return unknownAilment, "see that it runs and can be reached"
}

// goesOn adds to the remedy of a store that refuses what a running server does meanwhile. What
// is gone has to come back: a new one of its name is empty, and so another one.
func goesOn(err error, remedy string) string {
	switch {
	case errors.Is(err, lock.ErrMissing):
		return "bring it back with all that was in it, and what waits goes on by itself. A new one of its name is empty, and holds no journal; see the documents on a lost journal first"
	case errors.Is(err, objstore.ErrMissing):
		return "bring it back with all that was in it, and what waits goes on by itself. A new one of its name is empty, and tables and manifests in it are gone"
	}
	return remedy + "; what waits goes on by itself"
}
