"""Kills a session's processes when the session itself is killed.

A small shell process in its own session holds one end of a pipe and receives the process groups
over it. The pipe closes when this process ends, for whatever reason; then the shell kills the known
groups and all processes with the session's mark: SIGTERM, 0.2 s, SIGKILL. A parent-death signal
would reach only the commands' shells, not their descendants, and needs code between fork and exec.
"""

import os
from subprocess import Popen

from alhena.system.errors import ProcessStartError

_SCRIPT = r"""
trap '' HUP INT TERM
mark=$1
groups=' '
starting=
marked() {
  while read -r line; do
    case $line in "Max realtime timeout "*" $mark"[0-9]*) return 0 ;; esac
  done 2>/dev/null <"/proc/$1/limits"
  return 1
}
while read -r sign id; do
  case $sign in
    +) groups="$groups$id " ;;
    s) starting=1 ;;
    e) starting= ;;
    -) case $groups in *" $id "*) groups="${groups%%" $id "*} ${groups#*" $id "}" ;; esac ;;
  esac
done
[ "$groups$starting" = ' ' ] && exit 0
for signal in TERM KILL; do
  for id in $groups; do kill -s "$signal" -- "-$id" 2>/dev/null; done
  for file in /proc/[0-9]*/stat; do
    { read -r line <"$file"; } 2>/dev/null || continue
    pid=${line%% *}
    set -- ${line##*) }
    case $groups in *" $4 "*) kill -s "$signal" "$pid" 2>/dev/null; continue ;; esac
    [ -n "$mark" ] && marked "$pid" && kill -s "$signal" "$pid" 2>/dev/null
  done
  [ "$signal" = TERM ] && sleep 0.2
done
"""


class Watchdog:
    """Starts with the first group. `mark` is the prefix of the commands' marks (see `child`), ""
    for none. Raises ProcessStartError without sh."""

    def __init__(self, mark: str = "") -> None:
        self._mark = mark
        self._process: Popen[bytes] | None = None
        self._pipe: int | None = None
        self._groups: set[int] = set()
        self._starting = False

    def expect(self) -> None:
        """Announces a command: until `add` or `forget`, all marked processes are killed if this
        process ends, because its group may not have been registered."""
        self._starting = True
        if self._pipe is None or not self._tell(self._pipe, "s 0\n"):
            self._restart()

    def forget(self) -> None:
        """Withdraws the announcement."""
        if self._starting:
            self._starting = False
            if self._pipe is not None and not self._tell(self._pipe, "e 0\n"):
                self._restart()

    def add(self, group: int) -> None:
        """Registers a group (and session) to be killed if this process ends."""
        self._groups.add(group)
        if self._pipe is None or not self._tell(self._pipe, f"+ {group}\n"):
            self._restart()
        self.forget()

    def remove(self, group: int) -> None:
        """Unregisters an ended group: its id may be reused."""
        if group not in self._groups:
            return
        self._groups.remove(group)
        if self._pipe is not None and not self._tell(self._pipe, f"- {group}\n"):
            self._restart()

    def close(self) -> None:
        """Stops the watchdog; nothing is killed."""
        for group in tuple(self._groups):
            self.remove(group)
        self._stop()

    def __del__(self) -> None:
        self._stop()

    def _tell(self, pipe: int, line: str) -> bool:
        try:
            os.write(pipe, line.encode("ascii"))
        except BrokenPipeError:  # it was killed
            return False
        return True

    def _restart(self) -> None:
        self._stop()
        if not self._groups and not self._starting:
            return
        reading, writing = os.pipe()
        try:
            self._process = _start(reading, self._mark)
        except BaseException:
            os.close(writing)
            raise
        finally:
            os.close(reading)
        self._pipe = writing
        known = "".join(f"+ {group}\n" for group in self._groups)
        self._tell(writing, known + ("s 0\n" if self._starting else ""))

    def _stop(self) -> None:
        pipe, self._pipe = self._pipe, None
        process, self._process = self._process, None
        if pipe is not None:
            os.close(pipe)
        if process is not None:
            import subprocess

            try:
                process.wait(timeout=1)
            except subprocess.TimeoutExpired:  # it was stopped by a signal
                process.kill()
                process.wait()


def _start(pipe: int, mark: str) -> Popen[bytes]:
    import subprocess

    from alhena.system.environment import shield_memory

    shield_memory()
    try:
        return subprocess.Popen(
            ("/bin/sh", "-c", _SCRIPT, "sh", mark),
            stdin=pipe,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": os.defpath},
            start_new_session=True,
        )
    except OSError as error:
        raise ProcessStartError(
            f"Could not start /bin/sh, which guards the commands: {error.strerror}."
        ) from error
