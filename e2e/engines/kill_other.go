//go:build !unix

package engines

import "os/exec"

func ownGroup(*exec.Cmd) {}

func (s *Session) end() {
	s.once.Do(func() {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		_ = s.stderr.Close()
		close(s.ended)
	})
}
