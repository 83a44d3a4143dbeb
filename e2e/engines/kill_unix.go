//go:build unix

package engines

import (
	"os/exec"
	"syscall"
)

// ownGroup makes a process the first of a group, so that what it starts is killed with it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func (s *Session) end() {
	s.once.Do(func() {
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		_ = s.cmd.Wait()
		_ = s.stderr.Close()
		close(s.ended)
	})
}
