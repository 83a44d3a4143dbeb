package objstore

// LinkError is ErrLinked, and says which name is the link.
type LinkError struct {
	// Name is that of the folder or object, from the store's own folder on.
	Name string
	// Err is the system's; may be nil.
	Err error
}

// Error implements error.
func (e *LinkError) Error() string {
	text := e.Name + ": " + ErrLinked.Error()
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap is for errors.Is and errors.As.
func (e *LinkError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrLinked}
	}
	return []error{ErrLinked, e.Err}
}
