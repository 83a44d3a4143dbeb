package tables

import (
	"fmt"
	"slices"
)

const (
	maxReader = 3
	maxWriter = 7
)

// inForce are the features of a protocol, those of old protocol versions included.
// Writer version 7 has what it names and nothing else.
func (p *Protocol) inForce() featureSet {
	var s featureSet
	if p.MinWriter >= 7 {
		for _, name := range p.WriterFeatures {
			s |= bitOf(name)
		}
	}
	if p.MinReader >= 3 {
		for _, name := range p.ReaderFeatures {
			s |= bitOf(name)
		}
	}
	for i, f := range features {
		legacy := f.LegacyWriter > 0 && p.MinWriter < 7 && p.MinWriter >= f.LegacyWriter && p.MinReader >= f.LegacyReader ||
			f.LegacyReader > 0 && p.MinReader < 3 && p.MinReader >= f.LegacyReader
		if legacy {
			s |= 1 << i
		}
	}
	if p.MinReader > maxReader || p.MinWriter > maxWriter {
		s |= unknownFeature
	}
	return s
}

// checkReadable refuses a protocol under which we cannot even replay the log.
func (p *Protocol) checkReadable(table string) error {
	if p.MinReader > maxReader || p.MinReader < 1 {
		return &FeatureError{
			Table: table, Feature: fmt.Sprintf("minReaderVersion %d", p.MinReader),
			Reason: fmt.Sprintf("this build reads versions 1 to %d", maxReader),
		}
	}
	if p.MinReader < 3 {
		return nil
	}
	for _, name := range p.ReaderFeatures {
		if f, ok := featureOf(name); !ok || !f.Reader {
			return &FeatureError{Table: table, Feature: name, Reason: unknownReason(name)}
		}
	}
	return nil
}

// checkWritable refuses, by name, a protocol under which we may not write.
func (p *Protocol) checkWritable(table string) error {
	if err := p.checkReadable(table); err != nil {
		return err
	}
	if p.MinWriter > maxWriter || p.MinWriter < 1 {
		return &FeatureError{
			Table: table, Write: true, Feature: fmt.Sprintf("minWriterVersion %d", p.MinWriter),
			Reason: fmt.Sprintf("this build writes versions 1 to %d", maxWriter),
		}
	}
	if p.MinWriter < 7 {
		return nil
	}
	for _, name := range p.WriterFeatures {
		f, ok := featureOf(name)
		switch {
		case !ok:
			return &FeatureError{Table: table, Write: true, Feature: name, Reason: unknownReason(name)}
		case f.Policy == Refuse:
			return &FeatureError{Table: table, Write: true, Feature: name, Reason: f.Why}
		}
	}
	return nil
}

// wellFormed checks what the protocol's text asks of a protocol action that is
// about to be written.
func (p *Protocol) wellFormed() error {
	reader, writer := p.MinReader >= 3, p.MinWriter >= 7
	switch {
	case reader && !writer:
		return &fieldError{field: "protocol.minWriterVersion", reason: "must be 7 with minReaderVersion 3"}
	case reader != (p.ReaderFeatures != nil):
		return &fieldError{field: "protocol.readerFeatures", reason: "must be there with minReaderVersion 3 and only then"}
	case writer != (p.WriterFeatures != nil):
		return &fieldError{field: "protocol.writerFeatures", reason: "must be there with minWriterVersion 7 and only then"}
	}
	for _, name := range p.ReaderFeatures {
		if !slices.Contains(p.WriterFeatures, name) {
			return &fieldError{field: "protocol.readerFeatures", value: name, reason: "a reader feature must be in writerFeatures as well"}
		}
	}
	for _, name := range p.WriterFeatures {
		f, ok := featureOf(name)
		switch {
		case !ok:
		case f.Reader && p.MinReader >= 3 && !slices.Contains(p.ReaderFeatures, name):
			return &fieldError{field: "protocol.writerFeatures", value: name, reason: "must be in readerFeatures as well"}
		case f.Reader && p.MinReader < 3 && (f.LegacyReader == 0 || p.MinReader < f.LegacyReader):
			return &fieldError{field: "protocol.writerFeatures", value: name, reason: "is a feature for readers too, and needs minReaderVersion 3"}
		case name == "rowTracking" && !slices.Contains(p.WriterFeatures, "domainMetadata"),
			name == "clustering" && !slices.Contains(p.WriterFeatures, "domainMetadata"):
			return &fieldError{field: "protocol.writerFeatures", value: name, reason: "needs domainMetadata as well"}
		}
	}
	return nil
}
