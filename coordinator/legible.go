package coordinator

import (
	"strings"
	"unicode/utf8"

	"github.com/txcoord/txcoord/twophase"
)

// textBytes bounds what a record says of a path, an application or a reason; the
// rest of a longer one helps nobody.
const textBytes = 1024

// legible makes the texts of records valid UTF-8, which their encoding demands, and
// cuts the long ones. Names in logs and paths may be any bytes. It changes records
// that Decide has made or that were made for the request, and never what they share
// with others.
func legible(records []twophase.Record) {
	for _, r := range records {
		switch r := r.(type) {
		case *twophase.Committed:
			for i := range r.Parts {
				text(&r.Parts[i].MetaDataID)
				r.Parts[i].Shape.Apps = legibleApps(r.Parts[i].Shape.Apps)
			}
		case *twophase.Aborted:
			short(&r.Path)
			short(&r.Detail)
		case *twophase.Foreign:
			text(&r.MetaDataID)
			text(&r.Engine)
			r.Apps = legibleApps(r.Apps)
			legibleVerdicts(r.Verdicts)
		case *twophase.Barrier:
			legibleVerdicts(r.Verdicts)
		case *twophase.Range:
			text(&r.MetaDataID)
			legibleVerdicts(r.Verdicts)
		case *twophase.Registered:
			text(&r.MetaDataID)
		case *twophase.Created:
			text(&r.MetaDataID)
		case *twophase.Replaced:
			short(&r.Detail)
		case *twophase.Frozen:
			short(&r.Detail)
			short(&r.Remedy)
		case *twophase.Thawed:
			short(&r.Detail)
		case *twophase.Held:
			short(&r.Detail)
		}
	}
}

func text(s *string) {
	if !utf8.ValidString(*s) {
		*s = strings.ToValidUTF8(*s, "?")
	}
}

func short(s *string) {
	if len(*s) > textBytes || !utf8.ValidString(*s) {
		*s = clip(*s, textBytes)
	}
}

func legibleVerdicts(verdicts []twophase.Verdict) {
	for i := range verdicts {
		short(&verdicts[i].Conflict.Path)
		short(&verdicts[i].Conflict.Detail)
	}
}

func legibleApps(apps []twophase.AppVersion) []twophase.AppVersion {
	for i := range apps {
		if !utf8.ValidString(apps[i].App) {
			out := make([]twophase.AppVersion, len(apps))
			for j, a := range apps {
				text(&a.App)
				out[j] = a
			}
			return out
		}
	}
	return apps
}
