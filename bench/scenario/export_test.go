package scenario

// About says what numbers are about.
var About = about
