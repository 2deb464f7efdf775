"""A shell into whose terminal blocks are pasted as a person does: each block completely."""

import os
import pty
import signal
import subprocess
import termios
import threading
import time

BLOCK_SECS = int(os.environ.get("BLOCK_SECS", "600"))

# After each failed line, and after each failed command within a line, the shell writes the status
# and the line to the descriptor of failures. The prompt is empty.
PREPARED = r"""
PS1= PS2= HISTFILE= HISTCONTROL=
ended() { local status=$?; [ $status -eq 0 ] || echo "exit status $status: $(history 1)" >&FAILURES; }
PROMPT_COMMAND=ended
set -E
trap 'echo "exit status $?: $BASH_COMMAND" >&FAILURES' ERR
"""


class Stuck(Exception):
    """A block did not end, or read the lines that were pasted after it."""


class Shell:
    """An interactive bash with a terminal as its input, and files as its output.

    enter: the command that enters the environment and executes the arguments that follow
    log: a folder for the outputs
    """

    def __init__(self, enter, environment, log):
        self.master, slave = pty.openpty()
        attributes = termios.tcgetattr(slave)
        attributes[3] &= ~termios.ECHO
        termios.tcsetattr(slave, termios.TCSANOW, attributes)
        names = ("out", "err", "failures")
        written = {name: open(log / name, "ab", buffering=0) for name in names}
        self.files = {name: open(log / name, "rb") for name in names}
        failures = written["failures"].fileno()
        variables = [f"{name}={value}" for name, value in environment.items()]
        self.process = subprocess.Popen(
            [*enter, "env", "-i", *variables, "setsid", "--ctty", "--wait",
             "bash", "--norc", "--noprofile", "--noediting", "-i"],
            stdin=slave, stdout=written["out"], stderr=written["err"], pass_fds=[failures],
        )
        os.close(slave)
        for file in written.values():
            file.close()
        self.count = 0
        self.paste(PREPARED.replace("FAILURES", str(failures)))

    def taken(self, name):
        """Returns the text that was written to one of the files since the last call."""
        return self.files[name].read().decode("utf-8", "replace")

    def paste(self, text):
        """Pastes a block and the mark of its end. Returns output, errors and failed lines."""
        self.count += 1
        mark = f"=== end of block {self.count}"
        # The pasted text does not contain the mark as it is printed, so an echo of the text is not
        # a mark.
        pasted = f"{text}\necho '=== end of' block {self.count}\n".encode()
        threading.Thread(target=self.write, args=(pasted,), daemon=True).start()
        output, deadline = "", time.monotonic() + BLOCK_SECS
        while mark not in output:
            output += self.taken("out")
            if self.process.poll() is not None:
                raise Stuck(f"the shell ended:\n{output}\n{self.taken('err')}")
            if time.monotonic() > deadline:
                raise Stuck(
                    f"it did not end within {BLOCK_SECS} s, or took the next lines for its input:\n"
                    f"{output}\n{self.taken('err')[-3000:]}"
                )
            time.sleep(0.02)
        # A server of the block may print a line after the mark.
        before, after = output.split(mark, 1)
        joined = before + (after.removeprefix("\n") if before.endswith("\n") else after)
        return joined, self.taken("err"), self.taken("failures")

    def write(self, pasted):
        while pasted:
            try:
                pasted = pasted[os.write(self.master, pasted[:512]):]
            except OSError:
                return

    def end(self):
        """Ends the shell as if a person closed the terminal."""
        self.write(b"exit 0\n")
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        os.close(self.master)
        for file in self.files.values():
            file.close()
