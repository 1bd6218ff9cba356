#!/usr/bin/env python3
"""`tenure pipeline` on a real terminal: the live table, its keys, Ctrl-Z, SIGKILL; and --stream and
`status --watch` elsewhere."""
import fcntl
import json
import os
import re
import signal
import struct
import termios

from harness import children, is_running, main, state_of, wait_for
from pipelines import Pipeline
from terminal_test import Screen, foreground

GATE = "while ! test -e $HERE/{0}; do sleep 0.02; done"
CANONICAL = termios.ECHO | termios.ICANON
TWO = f"""
jobs = 1
[task.first]
run = "echo from first; echo $$ >$HERE/pid; {GATE.format('go')}"
[task.second]
needs = ["first"]
run = "echo second >>$HERE/ran"
"""


def _table(space, text, *options, columns=100):
    """The run of a manifest on a terminal."""
    pipeline = Pipeline(space, text)
    screen = Screen(space, space.program, "pipeline", "run", str(pipeline.file), *options,
                    columns=columns, **pipeline.environment)
    return pipeline, screen


def _shell_with(space, text):
    """A shell on a terminal, and the command that it should run there."""
    pipeline = Pipeline(space, text)
    screen = Screen(space, "bash", "--norc", "--noprofile", "-i", PS1="$ ", HISTFILE="",
                    **pipeline.environment)
    screen.see(r"\$ $")
    screen.type(f"{space.program} pipeline run {pipeline.file}\n")
    return pipeline, screen


def _pid(pipeline):
    return int(wait_for("the command", lambda: pipeline.text("pid").strip()))


def table_shows_tasks(space):
    pipeline, screen = _table(space, TWO)
    screen.see(r"TASK +STATE +ATTEMPT +TIME +WAITS FOR")
    screen.see(r"first +running +1 +\d+\.\ds")
    screen.see(r"second +waiting +first")
    screen.see(r"\[\.{24}\] 0 of 2, 1 running, \d+\.\ds\x1b")  # No estimate yet.
    screen.see(r"p pause +r resume")
    assert not screen.settings()[3] & CANONICAL
    space.file("go").touch()
    shown, status = screen.end()
    assert status == 0 and re.search(r"2 done in \d", shown), shown
    assert pipeline.text("ran") == "second\n"
    # The next one knows how long they took.
    space.file("go").unlink()
    again = Screen(space, space.program, "pipeline", "run", str(pipeline.file),
                   **pipeline.environment)
    again.see(r"0 of 2, 1 running, \d+\.\ds; about \d+\.\ds left")
    space.file("go").touch()
    assert again.end()[1] == 0


def table_pauses_and_resumes(space):
    pipeline, screen = _table(space, TWO)
    screen.see("first +running")
    screen.type("p")
    screen.see("; paused")
    space.file("go").touch()
    screen.see("1 of 2, ")
    screen.see(r"second +waiting +a free slot")
    assert pipeline.text("ran") == ""
    screen.type("r")
    assert screen.end()[1] == 0
    assert pipeline.text("ran") == "second\n"


def table_cancels_in_two_stages(space):
    """q lets what runs finish; q again ends it."""
    pipeline, screen = _table(space, TWO)
    screen.see("first +running")
    screen.type("q")
    screen.see("; cancelling")
    space.file("go").touch()
    shown, status = screen.end()
    assert status == 130 and "1 done, 1 cancelled" in shown, shown
    space.file("go").unlink()
    space.file("pid").unlink()
    pipeline, screen = _table(space, TWO)
    pid = _pid(pipeline)
    screen.see("first +running")
    screen.type("q")
    screen.see("; cancelling")
    screen.type("q")
    shown, status = screen.end()
    assert status == 130 and "2 cancelled" in shown, shown
    assert not is_running(pid)


def table_shows_failed_and_log_and_help(space):
    _, screen = _table(space, f"""
jobs = 2
[task.bad]
run = "echo why it failed; exit 3"
[task.long]
run = "echo line of long; echo $$ >$HERE/pid; {GATE.format('go')}"
""", "--keep-going")
    screen.see(r"failed   bad .*exit status 3")
    screen.see(r"--- output of bad\r\nwhy it failed\r\n---")
    screen.see("long +running")
    screen.type("f")
    screen.see(r"WAITS FOR[^l]*bad +failed +1 +\S+ +exit status 3[^>]*1 of 2")
    screen.type("a")
    screen.see("long +running")
    screen.type("j")
    screen.see("> long +running")
    screen.type("l")
    screen.see("log of long[^>]*line of long")
    screen.type("l")
    screen.type("\x1b[B")
    screen.see("> bad +failed")
    screen.type("?")
    screen.see("p  pause: tasks that run go on")
    screen.type("?")
    screen.see("long +running")
    space.file("go").touch()
    assert screen.end()[1] == 1


def table_follows_the_size(space):
    _, screen = _table(space, TWO, columns=100)
    screen.see("first +running")
    fcntl.ioctl(screen.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 30, 0, 0))
    wait_for("a narrow table", lambda: screen.read() and "ATTEMPT…" in screen.shown)
    frame = screen.shown[screen.shown.rindex("TASK"):]
    for line in frame.split("\r\n"):
        assert len(re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line.strip())) < 30, repr(line)
    space.file("go").touch()
    assert screen.end()[1] == 0


def _is_stopped(pid):
    """A shell that is starting a program stays in the kernel (D) while its child is stopped."""
    state = state_of(pid)
    return state == "T" or (state == "D" and [state_of(child) for child in children(pid)] == ["T"])


def table_survives_ctrl_z(space):
    """Its commands stop too, the shell has a sane terminal, and fg brings the table back."""
    pipeline, screen = _shell_with(space, TWO + "timeout = '30s'\n")
    pid = _pid(pipeline)
    screen.see("first +running")
    for _ in range(2):
        screen.type("\x1a")
        screen.see("Stopped")
        wait_for("the command to stop", lambda: _is_stopped(pid))
        screen.type("echo sane=$(stty -a | grep -c ' icanon').\n")
        screen.see(r"sane=1\.")
        foreground(screen)
        wait_for("the command to go on", lambda: not _is_stopped(pid))
        screen.see("first +running")
    space.file("go").touch()
    screen.see("2 done in")
    screen.type("echo status=$?.\n")
    screen.see(r"status=0\.")
    screen.type("exit\n")
    screen.end()


def table_is_quiet_in_the_background(space):
    pipeline, screen = _shell_with(space, TWO)
    pid = _pid(pipeline)
    screen.see("first +running")
    screen.type("\x1a")
    screen.see("Stopped")
    screen.type("bg\n")
    wait_for("the command to go on", lambda: not _is_stopped(pid))
    screen.type("echo here=$((40 + 2)).\n")
    screen.see(r"here=42\.")
    assert "first  running" not in screen.shown, screen.shown
    screen.type("fg\n")
    screen.see("first +running")
    space.file("go").touch()
    screen.see("2 done in")
    screen.type("exit\n")
    screen.end()


def table_p02_killed_leaves_a_sane_terminal(space):
    """SIGKILL of the run; the shell that started it reads lines as before."""
    caller = space.file("caller")
    pipeline = Pipeline(space, TWO)
    caller.write_text(f"{space.program} pipeline run {pipeline.file}\nread line\necho got=$line.\n")
    for number in (signal.SIGKILL, signal.SIGSEGV):
        space.file("pid").unlink(missing_ok=True)
        screen = Screen(space, "bash", "--norc", "--noprofile", "-i", PS1="$ ", HISTFILE="",
                        **pipeline.environment)
        screen.see(r"\$ $")
        screen.type(f"sh {caller}\n")
        pid = _pid(pipeline)
        screen.see("first +running")
        wait_for("keys", lambda: not screen.settings()[3] & CANONICAL)
        runner = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()
                  and _is_run(int(entry), str(pipeline.file))]
        assert runner, "no run"
        os.kill(min(runner), number)
        wait_for("the old settings", lambda: screen.settings()[3] & CANONICAL == CANONICAL)
        wait_for("the end of the command", lambda: not is_running(pid))
        screen.type("hello\n")
        screen.see(r"got=hello\.")
        for switch in (r"\x1b\[\?1049h", r"\x1b\[\?25l"):
            assert not re.search(switch, screen.shown)
        screen.type("exit\n")
        screen.end()


def _is_run(pid, file):
    """Neither the shell nor a guardian: those have no threads, or another command line."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as words:
            line = words.read().split(b"\0")
        return b"pipeline" in line and file.encode() in line and is_running(pid)
    except OSError:
        return False


def table_interrupted(space):
    pipeline, screen = _table(space, TWO)
    pid = _pid(pipeline)
    screen.see("first +running")
    screen.type("\x03")
    shown, status = screen.end()
    assert status == 130 and "go on with: tenure pipeline resume" in shown, shown
    assert not is_running(pid)


# ---- Elsewhere ----

def stream_prints_whole_lines(space):
    pipeline = Pipeline(space, f"""
jobs = 2
[task.a]
run = "printf 'a 1\\na 2, '; {GATE.format('go')}; printf 'its end\\nno newline'"
[task.b]
run = "{GATE.format('go')}; echo b 1; exit 1"
""")
    run = pipeline.start("run", "--stream", "--keep-going")
    lines = []
    while "a | a 1\n" not in lines:
        lines.append(run.stdout.readline())
    assert not [line for line in lines if "a 2" in line], lines
    space.file("go").touch()
    lines += run.communicate()[0].splitlines(keepends=True)
    assert run.returncode == 1
    streamed = [line for line in lines if line.startswith("a | ")]
    assert streamed == ["a | a 1\n", "a | a 2, its end\n", "a | no newline\n"], lines
    assert lines.count("b | b 1\n") == 1 and "--- output of b\n" not in lines, lines


def stream_has_events(space):
    pipeline = Pipeline(space, '[task.a]\nrun = "echo one; echo two"\n')
    out = pipeline.run("run", "--stream", "--json").out
    events = [json.loads(line) for line in out.splitlines()]
    said = [event["line"] for event in events if event["event"] == "output"]
    assert said == ["one", "two"], events


def status_watch_follows_a_run(space):
    pipeline = Pipeline(space, TWO)
    run = pipeline.start("run")
    _pid(pipeline)
    watch = pipeline.start("status", "--watch", "--json")
    first = json.loads(watch.stdout.readline())
    assert first["state"] == "running", first
    assert first["tasks"][0] == {"task": "first", "state": "running"}, first
    live = Screen(space, space.program, "pipeline", "status", str(pipeline.file), "--watch",
                  **pipeline.environment)
    live.see(r"run 000001: running.*\r\nrunning +first.*\r\nwaiting +second")
    space.file("go").touch()
    assert run.wait() == 0
    last = json.loads(watch.communicate()[0].splitlines()[-1])
    assert last["state"] == "done" and watch.returncode == 0, last
    shown, status = live.end()
    assert status == 0 and "run 000001: done" in shown, shown


def status_watch_sees_a_dead_run(space):
    pipeline = Pipeline(space, TWO)
    run = pipeline.start("run")
    _pid(pipeline)
    watch = pipeline.start("status", "--watch")
    assert watch.stdout.readline() == "run 000001: running\n"
    run.kill()
    out, _ = watch.communicate()
    assert "run 000001: interrupted\n" in out and watch.returncode == 0, out


if __name__ == "__main__":
    main(globals())
