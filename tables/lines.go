package tables

// LineCount counts the lines of a text that comes in pieces, white space lines left
// out. A line counts as soon as something of it is there.
type LineCount struct {
	n     int
	begun bool // something of the line that is not at its end yet
}

// Add takes the next piece, and returns how many lines there are up to here.
func (c *LineCount) Add(text []byte) int {
	for len(text) > 0 {
		line, rest := cutLine(text)
		if !c.begun && !blank(line) {
			c.n++
			c.begun = true
		}
		if len(line) < len(text) { // its end is there
			c.begun = false
		}
		text = rest
	}
	return c.n
}

// CountLines counts the lines of a piece, white space lines left out.
func CountLines(piece []byte) int {
	var c LineCount
	return c.Add(piece)
}
