//go:build unix

package servers

import "testing"

// Front is the proxy of StartVersity in front of another server. Users says how many
// requests hold or await a key.
func Front(t testing.TB, target string) (url string, users func(key string) int) {
	t.Helper()
	f, err := openFront(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.close)
	return "http://" + f.addr, func(key string) int {
		f.serial.mu.Lock()
		defer f.serial.mu.Unlock()
		if k := f.serial.keys[key]; k != nil {
			return k.users
		}
		return 0
	}
}
