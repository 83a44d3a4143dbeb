package fileobj

import "os"

// WithoutUnnamedDrafts makes a store work as on file systems that have none.
func WithoutUnnamedDrafts(s *Store) { s.sys.newDraft = newNamedDraft }

// OnStep is told each step of a put before it is taken, "draft", "sync file",
// "sync folder", "link", "rename", and lets it fail instead, or, if it answers
// late as well, after it was taken.
func OnStep(s *Store, hook func(step string) (err error, late bool)) {
	real := s.sys
	do := func(step string, run func() error) error {
		err, late := hook(step)
		if err != nil && !late {
			return err
		}
		if runErr := run(); err == nil {
			return runErr
		}
		return err
	}
	s.sys.newDraft = func(in *folder) (d *draft, err error) {
		err = do("draft", func() error { d, err = real.newDraft(in); return err })
		return d, err
	}
	s.sys.sync = func(f *os.File) error {
		st, err := f.Stat()
		if err != nil {
			return err
		}
		step := "sync file"
		if st.IsDir() {
			step = "sync folder"
		}
		return do(step, func() error { return real.sync(f) })
	}
	s.sys.link = func(d *draft, name string) error {
		return do("link", func() error { return real.link(d, name) })
	}
	s.sys.rename = func(d *draft, name string) error {
		return do("rename", func() error { return real.rename(d, name) })
	}
}
