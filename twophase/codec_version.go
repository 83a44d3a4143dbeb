//go:build !txcoord_next

package twophase

// CodecVersion is the newest encoding of entries and checkpoints that this build
// knows. What is written is in the one that the journal has switched on (R17).
const CodecVersion = 1
