package tables

import "time"

// defaultLogRetention is Delta's.
const defaultLogRetention = 30 * 24 * time.Hour

// LogRetention is how long the table's log is kept by whoever cleans it.
func (p *Profile) LogRetention() time.Duration {
	return p.interval(PropLogRetention, defaultLogRetention)
}

// DeletedFileRetention is how long VACUUM leaves removed files alone.
func (p *Profile) DeletedFileRetention() time.Duration {
	return p.interval(PropFileRetention, defaultFileRetention)
}

func (p *Profile) interval(property string, otherwise time.Duration) time.Duration {
	if d, err := ParseInterval(p.Property(property)); err == nil {
		return d
	}
	return otherwise
}

// FileURI is the canonical URI of a file that an action names by its canonical path.
func FileURI(tableURI, path string) string {
	if isOutside(path) {
		return path
	}
	return tableURI + "/" + escapeMarks(path)
}
