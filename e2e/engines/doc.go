// Package engines runs Delta engines that nobody here wrote, as writers: Spark,
// delta-rs and DuckDB, each as a process that takes one statement after the other
// and says what came of it. They know nothing of txcoord, and may be killed in the
// middle of anything.
//
// What they need is pinned, and built or fetched by the first test that asks for
// it: package toolcache says where. Spark needs a Java of 17 or newer and Maven.
package engines
