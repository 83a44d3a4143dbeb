package tables

// members calls f for each member of an object that is not null; f answers false
// for a value of the wrong type.
func members(raw []byte, f func(name, value []byte) bool) error {
	c := cursor{b: raw}
	if err := c.open('{'); err != nil {
		return &fieldError{reason: "is not an object"}
	}
	for n := 0; ; {
		name, more, err := c.key(&n)
		if err != nil || !more {
			return err
		}
		value, err := c.value()
		if err != nil {
			return err
		}
		if !isNull(value) && !f(name, value) {
			return &fieldError{field: string(name), value: cut(value), reason: "has the wrong type"}
		}
	}
}

// elements is members for an array.
func elements(raw []byte, f func(value []byte) bool) error {
	c := cursor{b: raw}
	if err := c.open('['); err != nil {
		return &fieldError{reason: "is not an array"}
	}
	for n := 0; ; {
		more, err := c.element(&n)
		if err != nil || !more {
			return err
		}
		value, err := c.value()
		if err != nil {
			return err
		}
		if !f(value) {
			return &fieldError{value: cut(value), reason: "an element has the wrong type"}
		}
	}
}
