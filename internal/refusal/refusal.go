// Package refusal has the errors of a store, whatever it holds, that answers and does not do
// what it is asked.
package refusal

// Refusal is an error of a store that answers, and will not do what it is asked until
// somebody does something about it: its credentials were revoked, or its place is gone.
// Nothing was carried out, and it says nothing of what is stored. Operations return it in
// their errors.
type Refusal struct {
	// Reason is one that errors.Is finds: the store's ErrDenied, or ErrMissing.
	Reason error
	// Text is what is wrong, and Remedy what to do about it, in words that may be told to
	// anybody.
	Text, Remedy string
	// Err is the driver's.
	Err error
}

// Error implements error, with the driver's own words.
func (r *Refusal) Error() string { return r.Text + ": " + r.Remedy + ": " + r.Err.Error() }

// Unwrap is for errors.Is and errors.As.
func (r *Refusal) Unwrap() []error { return []error{r.Reason, r.Err} }

// Ailment is what may be told, without the driver's words.
func (r *Refusal) Ailment() (text, remedy string) { return r.Text, r.Remedy }

// Mark makes errors.Is find a reason in an error, and leaves its text alone.
func Mark(reason, err error) error {
	if err == nil {
		return nil
	}
	return &marked{reason, err}
}

type marked struct{ reason, err error }

func (m *marked) Error() string   { return m.err.Error() }
func (m *marked) Unwrap() []error { return []error{m.reason, m.err} }
