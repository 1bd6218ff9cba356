#!/usr/bin/env python3
"""Asking for a lock, evicting below a path, changing a limit, and locking a file beside flock(1).

    ask_test.py CASE PROGRAM
"""
import json
import os
import signal
import subprocess

from harness import finish, guardian_of, is_running, main, wait_for

# Ends when it gets one of these signals, and says which.
POLITE = """
def leave(number, frame):
    ready(signal.Signals(number).name)
    sys.exit(7)
for number in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, leave)
ready()
while True:
    signal.pause()
"""


def _polite(space, *options):
    process = space.start("run", "a", *options, "--", space.script("polite", POLITE))
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    return process, space.tickets("a")[0]["token"]


def ask_ends_the_command(space):
    process, token = _polite(space)
    assert not space.tickets("a")[0]["asked_to_leave"]
    status, out, error = space.do("ask", token, "--json")
    assert (status, json.loads(out), error) == (0, {"token": token, "asked": True}, "")
    status, out, error = finish(process)
    assert (status, out) == (7, "SIGTERM\n"), (status, out, error)
    assert error == "tenure: somebody asked for the lock: sending the command a signal\n", error
    assert space.tickets() == []
    status, out, error = space.do("ask", token)
    assert status == 1 and f"there is no ticket with token {token}" in error, (status, error)


def ask_with_a_signal_of_choice(space):
    process, token = _polite(space, "--on-ask", "USR1")
    assert space.do("ask", token)[0] == 0
    assert finish(process)[:2] == (7, "SIGUSR1\n")
    status, _, error = space.do("run", "a", "--on-ask", "KILL", "--", "true")
    assert status == 2 and "--on-ask must be TERM, INT, HUP, QUIT, USR1, USR2 or none" in error


def ask_without_a_signal(space):
    process, token = _polite(space, "--on-ask", "none")
    assert space.do("ask", token)[0] == 0
    assert space.tickets("a")[0]["asked_to_leave"]
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert finish(process)[:2] == (7, "SIGTERM\n")


def evict_below(space):
    space.hold("deploy/prod")
    space.hold("deploy/test")
    beside = space.hold("build")
    space.start("run", "deploy", "--quiet", "--", "true")
    space.waiting(1)
    assert space.do("evict", "--below", "deploy") == (
        0, "evicted 3 tickets of 'deploy' and below\n", "")
    wait_for("the rest to go", lambda: len(space.tickets()) == 1)
    assert beside.poll() is None
    status, out, error = space.do("evict", "--below", "/", "--now", "--json")
    assert (status, json.loads(out), error) == (0, {"evicted": 1}, "")
    status, _, error = space.do("evict")
    assert status == 2 and "no TOKEN given, and no --below PATH" in error, error
    status, _, error = space.do("evict", "1", "--below", "a")
    assert status == 2 and "use either TOKEN or --below" in error, error


def change_a_limit(space):
    first = space.hold("api", "--permits", "1")
    waiter = space.start("run", "api", "--permits", "1", "--quiet", "--", "echo", "in")
    space.waiting(1)
    assert space.do("limit", "api", "2") == (0, "the limit of 'api' is 2 for 2 tickets\n", "")
    assert finish(waiter) == (0, "in\n", "")
    status, _, error = space.do("run", "api", "--permits", "1", "--", "true")
    assert status == 1 and "or change it with set_limit() or 'tenure limit'" in error, error
    status, out, error = space.do("limit", "api", "3", "--json")
    assert (status, json.loads(out), error) == (0, {"limit": 3, "tickets": 1}, "")
    second = space.hold("api", "--permits", "3", "--take", "2")
    status, _, error = space.do("limit", "api", "1")
    assert status == 1 and "cannot lower the limit of 'api' to 1: ticket " in error, error
    assert space.do("limit", "api", "2") == (0, "the limit of 'api' is 2 for 2 tickets\n", "")
    assert [ticket["state"] for ticket in space.tickets("api")] == ["holds", "holds"]
    assert space.do("run", "api", "--permits", "2", "--try", "--quiet", "--", "true")[0] == 75
    for holder in (first, second):
        holder.stdin.close()
        holder.wait()
    status, _, error = space.do("limit", "api", "0")
    assert status == 2 and "N takes a number from 1 to 1000000000, not '0'" in error, error
    for options in ((), ("--group", "pool")):
        assert space.do("limit", "api", "2", *options) == (
            0, "nobody holds 'api' with a limit, or waits for it: the next request decides\n", "")


def _flock(file, *words):
    return subprocess.run(["flock", *words[:-1], file, words[-1]], check=False).returncode


def _flocked(space, file, *options):
    """A flock(1) that holds the file until its input ends."""
    command = ["sh", "-c", "echo held; read line || true"]
    process = subprocess.Popen(["flock", *options, file, *command],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    space.started.append(process)
    process.stderr = None
    assert process.stdout.readline() == "held\n"
    return process


def flock_excludes_scripts(space):
    file = space.file("lock")
    holder = space.hold("a", "--flock", file)
    assert _flock(file, "-n", "true") == 1
    assert _flock(file, "-n", "-s", "true") == 1
    holder.stdin.close()
    holder.wait()
    assert _flock(file, "-n", "true") == 0


def flock_waits_for_scripts(space):
    file = space.file("lock")
    script = _flocked(space, file)
    status, _, error = space.do("run", "a", "--try", "--flock", file, "--", "true")
    assert status == 75 and f"gave up, because 'a' or the file '{file}' is not free" in error, error
    late = space.do("run", "a", "--timeout", "20ms", "--quiet", "--flock", file, "--", "true")
    assert late == (75, "", ""), late
    assert space.tickets() == []
    waiter = space.start("run", "a", "--flock", file, "--", "echo", "done")
    assert waiter.stderr.readline() == (
        f"tenure: waiting for '{file}': another program has locked the file\n")
    space.holding()
    script.stdin.close()
    assert finish(waiter)[:2] == (0, "done\n")
    waiter = space.start("run", "a", "--quiet", "--flock", file, "--", "true")
    assert finish(waiter)[0] == 0


def flock_is_shared_with_readers(space):
    file = space.file("lock")
    script = _flocked(space, file, "-s")
    reader = space.hold("a", "--shared", "--flock", file)
    assert space.do("run", "b", "--try", "--flock", file, "--", "true")[0] == 75
    assert _flock(file, "-n", "-s", "true") == 0
    reader.stdin.close()
    reader.wait()
    script.stdin.close()


def flock_ends_with_a_killed_script(space):
    file = space.file("lock")
    script = _flocked(space, file)
    waiter = space.start("run", "a", "--quiet", "--flock", file, "--", "echo", "done")
    space.holding()
    os.kill(script.pid, signal.SIGKILL)  # Its shell has the file, and goes with its input.
    script.stdin.close()
    assert finish(waiter) == (0, "done\n", "")


def flock_ends_with_a_killed_holder(space):
    file = space.file("lock")
    holder = space.hold("a", "--flock", file)
    guardian = guardian_of(holder)
    holder.kill()
    wait_for("the guardian to go", lambda: not is_running(guardian))
    assert subprocess.run(["flock", "-w", "30", file, "true"], check=False).returncode == 0


def flock_waits_are_ended_by_signals(space):
    file = space.file("lock")
    _flocked(space, file)
    waiter = space.start("run", "a", "--quiet", "--flock", file, "--", "true")
    space.holding()
    waiter.send_signal(signal.SIGTERM)
    assert finish(waiter)[0] == 128 + signal.SIGTERM
    assert space.tickets() == []


def flock_names_a_bad_file(space):
    status, _, error = space.do("run", "a", "--flock", "/no/such/dir/x", "--", "true")
    assert status == 1 and "cannot open the file to lock '/no/such/dir/x'" in error, (status, error)


if __name__ == "__main__":
    main(globals())
