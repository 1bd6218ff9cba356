#!/usr/bin/env python3
"""What a person at a terminal sees: job control under a real shell, the waiting line, the watch.

    terminal_test.py CASE PROGRAM
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

from harness import LIMIT, children, is_running, main, state_of, wait_for

COMMAND = """
ints = 0
def on_int(number, frame):
    global ints
    ints += 1
    ready("int")
signal.signal(signal.SIGINT, on_int)
signal.signal(signal.SIGCONT, lambda number, frame: ready("continued"))
if "deaf" in sys.argv:
    signal.signal(signal.SIGTSTP, signal.SIG_IGN)
ready(f"pid={os.getpid()}.")
if "input" not in sys.argv:
    while True:
        signal.pause()
line = sys.stdin.readline().strip()
ready(f"line={line} ints={ints}.")
sys.exit(3)
"""


class Screen:
    """A program on a terminal."""

    def __init__(self, space, *command, columns=100, **environment):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            # Here, so that the program never sees another size.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
            os.chdir(space.directory)
            os.execvpe(command[0], command, {**space.environment, **environment})
        self.shown = ""

    def type(self, keys):
        os.write(self.terminal, keys.encode())

    def read(self, limit=0.05):
        """False when the other side has gone."""
        if select.select([self.terminal], [], [], limit)[0]:
            try:
                part = os.read(self.terminal, 65536)
            except OSError:  # How Linux says so.
                return False
            self.shown += part.decode(errors="replace")
            return bool(part)
        return True

    def see(self, pattern):
        """Waits until it is shown, and forgets everything up to it."""
        end = time.monotonic() + LIMIT
        while not (found := re.search(pattern, self.shown)):
            assert time.monotonic() < end, f"never saw {pattern!r} in {self.shown!r}"
            if not self.read() and not re.search(pattern, self.shown):
                raise AssertionError(f"ended without {pattern!r}: {self.shown!r}")
        self.shown = self.shown[found.end():]
        return found

    def end(self):
        """Waits for the end; what was shown, and the exit status."""
        while self.read():
            pass
        os.close(self.terminal)
        return self.shown, os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def settings(self):
        return termios.tcgetattr(self.terminal)


def _shell(space):
    screen = Screen(space, "bash", "--norc", "--noprofile", "-i", PS1="$ ", HISTFILE="")
    screen.see(r"\$ $")
    return screen


def start(screen, line):
    """Types a line that ends in the command above; its process."""
    screen.type(line + "\n")
    return int(screen.see(r"pid=(\d+)\.")[1])


def foreground(screen):
    """fg of a job that is stopped. One that the shell takes for running would not go on."""
    known = None
    while known != "Stopped":
        screen.type("jobs\n")
        known = screen.see(r"\[1\]\+ +(\w+)")[1]
    screen.type("fg\n")


def parent(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def job_control(space):
    """Ctrl-Z, fg, Ctrl-C and input, as without the wrapper."""
    script = space.script("command", COMMAND)
    screen = _shell(space)
    pid = start(screen, f"{space.program} run a -- {script} input")
    wrapper = parent(parent(pid))
    assert os.getpgid(pid) == os.getpgid(wrapper)
    for _ in range(2):
        screen.type("\x1a")
        screen.see("Stopped")
        assert (state_of(pid), state_of(wrapper)) == ("T", "T")
        screen.type("fg\n")
        screen.see("continued")
    screen.type("\x03")
    screen.see("int\r\n")
    screen.type("hello\n")
    assert screen.see(r"line=(\w+) ints=(\d+)\.").groups() == ("hello", "1")
    screen.type("echo status=$?.\n")
    screen.see(r"status=3\.")
    screen.type("exit\n")
    screen.end()


def stopped_again(space):
    """A fg that the wrapper is slow to pass on does not undo the Ctrl-Z after it."""
    script = space.script("command", COMMAND)
    screen = _shell(space)
    pid = start(screen, f"{space.program} run a -- {script} input")
    guardian = parent(pid)
    wrapper = parent(guardian)
    screen.type("\x1a")
    screen.see("Stopped")
    os.kill(guardian, signal.SIGSTOP)
    wait_for("the guardian to stop", lambda: state_of(guardian) == "T")
    screen.type("fg\n")
    screen.see("continued")
    wait_for("the wrapper to sleep again", lambda: state_of(wrapper) == "S")
    screen.type("\x1a")
    wait_for("the command to stop", lambda: state_of(pid) == "T")
    os.kill(guardian, signal.SIGCONT)
    screen.see("Stopped")
    assert (state_of(pid), state_of(wrapper)) == ("T", "T")
    screen.type("fg\n")
    screen.see("continued")
    screen.type("hello\n")
    screen.see(r"line=hello ints=0\.")
    screen.type("exit\n")
    screen.end()


def killed_while_stopped(space):
    """The job ends, although it is stopped."""
    script = space.script("command", COMMAND)
    screen = _shell(space)
    pid = start(screen, f"{space.program} run a -- {script}")
    screen.type("\x1a")
    screen.see("Stopped")
    os.kill(pid, signal.SIGKILL)
    wait_for("the lock to be free", lambda: not space.tickets())
    screen.type("wait %1; echo status=$?.\n")
    screen.see(r"status=137\.")
    screen.type("exit\n")
    screen.end()


def deaf_to_ctrl_z(space):
    """A command that does not stop keeps the terminal."""
    script = space.script("command", COMMAND)
    screen = _shell(space)
    start(screen, f"{space.program} run a -- {script} input deaf")
    screen.type("\x1ahello\n")
    screen.see(r"line=hello ints=0\.")
    assert "Stopped" not in screen.shown
    screen.type("exit\n")
    assert "Stopped" not in screen.end()[0]


def background(space):
    """In the background, reading stops it; fg lets it go on."""
    script = space.script("command", COMMAND)
    screen = _shell(space)
    pid = start(screen, f"{space.program} run a -- {script} input &")
    wrapper = parent(parent(pid))
    wait_for("both to stop", lambda: (state_of(pid), state_of(wrapper)) == ("T", "T"))
    foreground(screen)
    screen.see("continued")
    screen.type("hello\n")
    screen.see(r"line=hello ints=0\.")
    screen.type("exit\n")
    screen.end()


def redirected_input(space):
    """With other input the command has a group of its own, and the keys are passed on."""
    script = space.script("command", COMMAND)
    screen = _shell(space)
    pid = start(screen, f"{space.program} run a -- {script} < /dev/null")
    wrapper = parent(parent(pid))
    assert os.getpgid(pid) == pid
    screen.type("\x03")
    screen.see("int\r\n")
    screen.type("\x1a")
    screen.see("Stopped")
    assert (state_of(pid), state_of(wrapper)) == ("T", "T")
    screen.type("fg\n")
    screen.see("continued")
    screen.type("\x1c")  # SIGQUIT, which it does not catch.
    screen.type("echo status=$?.\n")
    screen.see(r"status=131\.")
    screen.type("exit\n")
    screen.end()


def wrapper_killed_on_terminal(space):
    """The command goes, with all that it started; the shell, and a script in between, stay."""
    family = space.script("family", """
child = subprocess.Popen(["sleep", "100"], start_new_session=True)
ready(f"pids={os.getpid()},{child.pid}.")
signal.pause()
""")
    caller = space.file("caller")
    caller.write_text(f"{space.program} run a -- {family}\necho survived=$?.\n")
    screen = _shell(space)
    screen.type(f"sh {caller}\n")
    pid, child = map(int, screen.see(r"pids=(\d+),(\d+)\.").groups())
    wrapper = parent(parent(pid))
    assert os.getpgid(pid) == os.getpgid(wrapper)
    os.kill(wrapper, signal.SIGKILL)
    screen.see(r"survived=137\.")
    wait_for("both to be killed", lambda: not is_running(pid) and not is_running(child))
    assert space.do("run", "a", "--", "true")[0] == 0
    screen.type("exit\n")
    screen.end()


def terminal_restored(space):
    """What the command did to the terminal is undone, when it can't do so itself."""
    script = space.file("raw")
    script.write_text("stty raw -echo; echo pid=$$.; exec sleep 100\n")
    caller = space.file("caller")
    caller.write_text(f"{space.program} run a -- sh {script}\nread line\necho got=$line.\n")
    canonical = termios.ECHO | termios.ICANON
    for ending in ("kill wrapper", "kill guardian", "evict"):
        screen = _shell(space)
        screen.type(f"sh {caller}\n")
        pid = int(screen.see(r"pid=(\d+)\.")[1])
        assert not screen.settings()[3] & canonical
        guardian = parent(pid)
        if ending == "evict":
            assert space.do("evict", space.tickets()[0]["token"]) == (0, "", "")
        else:
            os.kill(guardian if ending == "kill guardian" else parent(guardian), signal.SIGKILL)
        wait_for("the old settings", lambda: screen.settings()[3] & canonical == canonical)
        screen.type("hello\n")
        screen.see(r"got=hello\.")
        screen.type("exit\n")
        screen.end()


def terminal_closed(space):
    """Whoever closes the window ends the command."""
    script = space.script("command", COMMAND)
    screen = _shell(space)
    pid = start(screen, f"{space.program} run a -- {script}")
    os.close(screen.terminal)
    wait_for("the command to end", lambda: not is_running(pid))
    wait_for("the lock to be free", lambda: not space.tickets())
    os.kill(screen.pid, signal.SIGKILL)
    os.waitpid(screen.pid, 0)


def waiting_line(space):
    """One line that is kept up to date, and goes."""
    holder = space.hold("a", "--label", "nightly")
    screen = Screen(space, space.program, "run", "a", "--", "echo", "had")
    for _ in range(2):
        line = screen.see(r"\r(waiting for a: held by .*?)\x1b\[K")[1]
        assert re.fullmatch(rf"waiting for a: held by \S+ 'nightly' \(\S+, pid {holder.pid}\) "
                            r"for \d+s; position 1", line) or line.endswith("…"), line
        assert len(line) < 100, line
    holder.stdin.close()
    assert screen.end() == ("\r\x1b[Khad\r\n", 0)


def waiting_line_dumb(space):
    holder = space.hold("a")
    screen = Screen(space, space.program, "run", "a", "--", "echo", "had", TERM="dumb")
    screen.see("tenure: waiting for a: held by ")
    holder.stdin.close()
    shown, status = screen.end()
    assert status == 0 and "\x1b" not in shown, (shown, status)


def interrupt_while_waiting(space):
    space.hold("a")
    screen = _shell(space)
    screen.type(f"{space.program} run a -- true\n")
    screen.see("waiting for a")
    screen.type("\x1a")
    screen.see("Stopped")
    screen.type("fg\n")
    screen.see("waiting for a")
    screen.type("\x03")
    screen.type("echo status=$?.\n")
    screen.see(r"status=130\.")
    assert len(space.tickets()) == 1
    screen.type("exit\n")
    screen.end()


def lost_restores_terminal(space):
    """A command that is killed can't tidy up the terminal, so the wrapper does."""
    script = space.script("raw", """
import tty
signal.signal(signal.SIGTERM, signal.SIG_IGN)
tty.setraw(0)
ready("raw.")
while True:
    signal.pause()
""")
    screen = Screen(space, space.program, "run", "a", "--", script)
    before = screen.settings()
    screen.see(r"raw\.")
    assert screen.settings() != before
    space.do("evict", "--now", space.tickets()[0]["token"])
    screen.see("the lock was lost")
    wait_for("the settings to return", lambda: screen.settings() == before)
    assert screen.end()[1] == 74


def colours(space):
    space.hold("a")
    for command in ("ls", "tree", "doctor"):
        for environment, coloured in (({}, True), ({"NO_COLOR": "1"}, False),
                                      ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)):
            shown, status = Screen(space, space.program, command, **environment).end()
            assert status == 0 and ("\x1b[" in shown) == coloured, (command, environment, shown)
        assert "\x1b" not in space.do(command)[1]


def hostile_text(space):
    """What others chose can't write to the terminal."""
    holder = space.hold("a", "--label", "\x1b]0;owned\x07\x9b31m\r\nhidden\u202egnp")
    escaped = b"%1B]0;owned%07%C2%9B31m%0D%0Ahidden%E2%80%AEgnp"
    for command in (["ls"], ["tree"], ["show", "a"], ["doctor"]):
        for shown in (space.do(*command, text=False)[1],
                      Screen(space, space.program, *command, columns=300,
                             NO_COLOR="1").end()[0].encode()):
            text = shown.replace(b"\r\n", b"\n")
            assert escaped in text, text
            bad = rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80\xae"
            assert not re.search(bad, text), text
    holder.stdin.close()


def narrow_list(space):
    """A table never wraps."""
    space.hold("a/" + "b" * 120, "--label", "界" * 60)
    shown, status = Screen(space, space.program, "ls", NO_COLOR="1").end()
    lines = shown.replace("\r", "").split("\n")
    assert status == 0 and any("a/bbb" in line for line in lines), (status, shown)
    assert all(len(line) <= 100 for line in lines), shown


def watch_in_background(space):
    """It does not draw over what others do."""
    space.do("run", "a", "--", "true")
    screen = _shell(space)
    screen.type(f"{space.program} watch &\n")
    pid = wait_for("the watch", lambda: children(screen.pid))[0]
    wait_for("it to stop", lambda: state_of(pid) == "T")
    screen.type("echo $((40 + 2)).\n")
    screen.see(r"42\.")
    assert "1049h" not in screen.shown
    foreground(screen)
    screen.see(r"\x1b\[\?1049h[^§]*0 of 0 tickets")
    screen.type("q")
    screen.see(r"\x1b\[\?1049l")
    screen.type("exit\n")
    screen.end()


def watch(space):
    """Redrawn when something changes; q ends it, and the terminal is as before."""
    screen = Screen(space, space.program, "run", "warm-up", "--", "true")
    screen.end()
    screen = _shell(space)
    before = screen.settings()
    screen.type(f"{space.program} watch\n")
    screen.see(r"\x1b\[\?1049h[^§]*0 of 0 tickets")
    holder = space.hold("a/b", "--label", "nightly")
    screen.see(r"1 of 1 tickets hold their lock")
    screen.see(r"a/b +exclusive +\S*holds\S* ")
    screen.type("\x1a")
    screen.see(r"\x1b\[\?1049l")
    screen.see("Stopped")
    screen.type("fg\n")
    screen.see(r"\x1b\[\?1049h")
    holder.stdin.close()
    screen.see("0 of 0 tickets")
    screen.type("q")
    screen.see(r"\x1b\[\?25h\x1b\[\?1049l")
    screen.type("echo status=$?.\n")
    screen.see(r"status=0\.")
    screen.see(r"\$ $")
    assert screen.settings()[:6] == before[:6]
    screen.type(f"{space.program} watch\n")
    screen.see("0 of 0 tickets")
    screen.type("\x03")
    screen.see(r"\x1b\[\?25h\x1b\[\?1049l")
    screen.type("exit\n")
    screen.end()


if __name__ == "__main__":
    main(globals())
