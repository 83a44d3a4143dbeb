package objstore

// Refusal is an error of a store that answers, and will not do what it is asked until
// somebody does something about it: its credentials were revoked, or its bucket is gone. It
// says nothing of the objects. Operations return it in their errors.
type Refusal struct {
	// Reason is one that errors.Is finds: ErrDenied, ErrMissing.
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
