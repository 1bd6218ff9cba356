"""What the tests of the program share: a space in a temporary file, processes in it, and waiting.

Nothing here asserts how long something takes: wait_for() waits for a state, with a limit that is
only there so that a broken program fails a test instead of hanging it.
"""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

LIMIT = 40  # Seconds; ctest ends a case after 60.


def wait_for(what, state):
    """Returns what `state` returns, once that is true."""
    end = time.monotonic() + LIMIT
    while not (result := state()):
        assert time.monotonic() < end, f"waited in vain for: {what}"
        time.sleep(0.005)
    return result


def is_running(pid):
    """Neither gone nor a zombie."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def state_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def children(pid):
    try:
        listed = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(child) for child in listed.split()]


def guardian_of(wrapper):
    """The process between the wrapper and its command."""
    return wait_for("the guardian", lambda: children(wrapper.pid))[0]


class Space:
    """A space of its own for one test, and the program to use it with."""

    def __init__(self, program, directory):
        self.program = program
        self.directory = pathlib.Path(directory)
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": directory, "TERM": "xterm",
            "TENURE_SPACE": f"sqlite:{directory}/space.db",
            # For a program that was built with sanitizers or to measure coverage.
            **{name: value for name, value in os.environ.items()
               if name.endswith("SAN_OPTIONS") or name.startswith("LLVM_PROFILE")}}
        self.started = []

    def file(self, name):
        return self.directory / name

    def start(self, *arguments, environment=(), **options):
        """Runs it with pipes for what is not given; it is killed at the end of the test."""
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                   "stderr": subprocess.PIPE, "text": True, "cwd": self.directory, **options}
        process = subprocess.Popen([self.program, *map(str, arguments)],
                                   env={**self.environment, **dict(environment)}, **options)
        self.started.append(process)
        return process

    def do(self, *arguments, input=None, **options):
        """Runs it to its end: (exit status, standard output, standard error)."""
        if input is not None:
            options["stdin"] = subprocess.PIPE
        process = self.start(*arguments, **options)
        out, error = process.communicate(input, timeout=LIMIT)
        return process.returncode, out, error

    def tickets(self, *path):
        if not self.file("space.db").exists():  # Nobody has made it yet.
            return []
        status, out, error = self.do("ls", "--json", *path)
        assert (status, error) == (0, ""), (status, out, error)
        return json.loads(out)["tickets"]

    def waiting(self, count):
        wait_for(f"{count} in line",
                 lambda: sum(ticket["state"] == "waits" for ticket in self.tickets()) == count)

    def holding(self, count=1):
        wait_for(f"{count} holders",
                 lambda: sum(ticket["state"] == "holds" for ticket in self.tickets()) == count)

    def hold(self, path, *more):
        """A process that holds `path` until its input ends."""
        holder = self.start("run", path, *more, "--", "sh", "-c", "echo held; read line || true",
                            stdin=subprocess.PIPE)
        assert holder.stdout.readline() == "held\n", holder.stderr.read()
        return holder

    def script(self, name, text):
        """A Python program to run under a lock. ready(text) says that it got so far."""
        file = self.file(name)
        file.write_text(f"#!{sys.executable}\n"
                        "import os, signal, subprocess, sys, time\n"
                        "def ready(text='ready'):\n"
                        "    os.write(1, f'{text}\\n'.encode())\n" + text)
        file.chmod(0o755)
        return file


@contextlib.contextmanager
def a_space(program):
    with tempfile.TemporaryDirectory(prefix="tenure-test-") as directory:
        space = Space(program, directory)
        try:
            yield space
        finally:
            for process in space.started:
                if process.poll() is None:
                    process.kill()
                process.wait()
                for pipe in (process.stdin, process.stdout, process.stderr):
                    if pipe:
                        with contextlib.suppress(OSError):
                            pipe.close()


def finish(process):
    """(exit status, standard output, standard error) of one that ends by itself."""
    out, error = process.communicate(timeout=LIMIT)
    return process.returncode, out, error


def main(cases):
    """CASE PROGRAM: runs the function of that name with a space."""
    if os.environ.get("TENURE_TEST_LIMIT") != "0":  # make torture
        signal.alarm(LIMIT + 15)
    with a_space(sys.argv[2]) as space:
        cases[sys.argv[1]](space)
