// Package servers starts real servers for tests: etcd with one member or several,
// servers of the APIs of S3, Google Cloud Storage and Azure, and two of the DynamoDB
// API that nobody here wrote. All listen on
// loopback ports that nobody else uses, keep their data in the test's own folder
// and end with the test, or with its process.
//
// Go servers are built from the modules below tools/, once per version, into the
// cache folder that the Makefile uses too; Python ones live in a virtual
// environment in the ignored folder .venv. Nothing of them is in the product's own
// go.mod.
//
// What no server here does by itself is done by proxies in front of them: HTTPFaults
// throttles, answers in a server's place and loses answers, TCPFaults cuts, delays
// and partitions. One is always there: StartVersity's, which has deletes wait their turn.
package servers
