//go:build txcoord_next

package twophase

// CodecVersion is that of the build after this one, which tests of upgrades run beside
// it. It brings nothing but its number.
const CodecVersion = 2
