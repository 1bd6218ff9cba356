#!/usr/bin/env python3
"""tenure run, when something dies or the lock is lost: the command never outlives it.

    death_test.py CASE PROGRAM
"""
import os
import re
import signal
import subprocess

from harness import children, finish, is_running, main, guardian_of, state_of, wait_for

# Starts a family and tells its process ids: a child in the group, one that closed every file, one
# in a session of its own, and a grandchild whose parent is gone. All of them ignore SIGTERM when
# asked to.
FAMILY = """
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
def start(shell, **options):
    line = subprocess.Popen(["sh", "-c", shell], stdout=subprocess.PIPE, **options).stdout
    return int(line.readline())
sleep = "exec sleep 100"
pids = [os.getpid(),
        start(f"echo $$; {sleep}", close_fds=False),
        start(f"echo $$; exec >&-; {sleep}", close_fds=True),
        start(f"echo $$; {sleep}", close_fds=False, start_new_session=True),
        start(f"sh -c 'echo $$; {sleep}' & exit", close_fds=False)]
ready(" ".join(map(str, pids)))
while True:
    signal.pause()
"""


def start_family(space, *options, words=()):
    process = space.start("run", "a", *options, "--", space.script("family", FAMILY), *words)
    pids = [int(word) for word in process.stdout.readline().split()]
    assert len(pids) == 5, process.stderr.read()
    return process, pids


def next_in_line(space, pids):
    """Has the lock next; says which of the processes it still finds then."""
    running = ("import os, sys\n"
               "def state(pid):\n"
               "    try: text = open(f'/proc/{pid}/stat').read()\n"
               "    except OSError: return 'Z'\n"
               "    return text.rpartition(')')[2].split()[0]\n"
               "print(*[pid for pid in sys.argv[1:] if state(pid) not in 'ZX'])")
    process = space.start("run", "a", "--quiet", "--", "python3", "-c", running, *pids)
    space.waiting(1)
    return process


def wrapper_killed(space):
    process, pids = start_family(space, words=["stubborn"])
    after = next_in_line(space, pids)
    process.kill()
    assert finish(after) == (0, "\n", "")
    assert not any(map(is_running, pids))
    assert space.tickets() == []


def wrapper_killed_while_waiting(space):
    space.hold("a")
    process = space.start("run", "a", "--quiet", "--", "true")
    space.waiting(1)
    guardian = guardian_of(process)
    process.kill()
    space.waiting(0)
    wait_for("the guardian to go", lambda: not is_running(guardian))


def both_killed(space):
    """Nobody is left to end the command, so the lock stays until it has gone."""
    process, pids = start_family(space)
    after = next_in_line(space, pids)
    guardian = guardian_of(process)
    process.send_signal(signal.SIGSTOP)  # So that it does not see the guardian go before it dies.
    wait_for("the wrapper to stop", lambda: state_of(process.pid) == "T")
    os.kill(guardian, signal.SIGKILL)
    process.kill()
    # The kernel kills the command itself; what it started has the session's file open.
    wait_for("the command to die", lambda: not is_running(pids[0]))
    assert [is_running(pid) for pid in pids] == [False, True, True, True, True], pids
    space.waiting(1)
    for pid in pids[2:]:
        os.kill(pid, signal.SIGKILL)
    wait_for("them to die", lambda: not any(map(is_running, pids[2:])))
    space.waiting(1)
    assert after.poll() is None
    os.kill(pids[1], signal.SIGKILL)
    assert finish(after) == (0, "\n", "")


def guardian_killed(space):
    """The kernel kills the command, and the wrapper the rest."""
    process, pids = start_family(space)
    after = next_in_line(space, pids)
    os.kill(guardian_of(process), signal.SIGKILL)
    status, _, error = finish(process)
    assert status == 137 and "supervises the command" in error, (status, error)
    assert finish(after) == (0, "\n", "")


def daemon_survives(space):
    """What a command leaves behind when it ends by itself goes on, and blocks nobody."""
    script = space.script("leave", """
nothing = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
for own_session in (False, True):
    daemon = subprocess.Popen(["sleep", "100"], close_fds=False, start_new_session=own_session,
                              **nothing)
    ready(daemon.pid)
""")
    status, out, _ = space.do("run", "a", "--", script)
    pids = [int(word) for word in out.split()]
    try:
        assert status == 0 and len(pids) == 2, (status, out)
        assert all(map(is_running, pids))
        assert space.do("run", "a", "--try", "--", "true") == (0, "", "")
        assert all(map(is_running, pids))
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)


def evicted(space):
    """SIGTERM to all; then SIGKILL, before the next one gets in."""
    for words in ([], ["stubborn"]):
        process, pids = start_family(space, words=words)
        after = next_in_line(space, pids)
        token = next(ticket["token"] for ticket in space.tickets() if ticket["state"] == "holds")
        assert space.do("evict", token) == (0, "", "")
        status, _, error = finish(process)
        assert status == 74, (status, error)
        assert error == "tenure: the lock was lost: ending the command\n", error
        assert finish(after) == (0, "\n", "")
        assert not any(map(is_running, pids))


def evicted_politely(space):
    """The command hears SIGTERM, and has time to tidy up."""
    script = space.script("tidy", """
def tidy(number, frame):
    ready("tidy")
    sys.exit(0)
signal.signal(signal.SIGTERM, tidy)
ready()
while True:
    signal.pause()
""")
    process = space.start("run", "a", "--", script)
    assert process.stdout.readline() == "ready\n"
    space.do("evict", space.tickets()[0]["token"])
    status, out, _ = finish(process)
    assert (status, out) == (74, "tidy\n"), (status, out)


def evicted_now(space):
    process, pids = start_family(space, words=["stubborn"])
    assert space.do("evict", "--now", space.tickets()[0]["token"]) == (0, "", "")
    status, _, error = finish(process)
    assert status == 74, (status, error)
    assert not any(map(is_running, pids))


def evicted_while_waiting(space):
    space.hold("a")
    process = space.start("run", "a", "--quiet", "--", "true")
    space.waiting(1)
    waiting = next(ticket for ticket in space.tickets() if ticket["state"] == "waits")
    assert space.do("evict", waiting["token"])[0] == 0
    status, out, error = finish(process)
    assert (status, out, error.count("\n")) == (74, "", 1), (status, error)


def max_hold(space):
    process, pids = start_family(space, "--max-hold", "3s", words=["stubborn"])
    ticket = space.tickets()[0]
    assert ticket["deadline"] > ticket["since"], ticket
    after = next_in_line(space, pids)
    status, _, error = finish(process)
    assert status == 74 and "lost" in error, (status, error)
    result = finish(after)
    assert result == (0, "\n", ""), result
    # One that is done in time is not touched.
    assert space.do("run", "a", "--max-hold", "100y", "--", "true")[0] == 2
    assert space.do("run", "a", "--max-hold", "36525d", "--", "sh", "-c", "exit 5")[0] == 5


def stopped_past_its_deadline(space):
    """A wrapper that is stopped can't end the command, but the guardian can."""
    process, pids = start_family(space, "--max-hold", "3s", words=["stubborn"])
    after = next_in_line(space, pids)
    process.send_signal(signal.SIGSTOP)
    wait_for("the command to die", lambda: not is_running(pids[0]))
    status, _, error = finish(process)  # It was continued, to see this.
    assert status == 74, (status, error)
    assert finish(after) == (0, "\n", "")


def lost_while_stopped(space):
    """A command that was stopped is ended all the same."""
    process, pids = start_family(space)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    space.do("evict", space.tickets()[0]["token"])
    assert finish(process)[0] == 74
    assert not any(map(is_running, pids))


def no_orphans(space):
    """Neither wrapper nor guardian stays when all is over."""
    process = space.start("run", "a", "--", "sh", "-c", "echo up; read line",
                          stdin=subprocess.PIPE)
    assert process.stdout.readline() == "up\n"
    guardian = guardian_of(process)
    assert children(guardian)
    process.stdin.close()
    assert process.wait() in (0, 1)
    assert not is_running(guardian)


def message_names_the_circle(space):
    """Two owners, each inside `tenure run`, that want what the other has."""
    first = space.start("run", "a", "--", "sh", "-c",
                        f"echo up; read line; exec {space.program} run b --quiet -- true",
                        stdin=subprocess.PIPE)
    second = space.start("run", "b", "--", "sh", "-c",
                         f"echo up; read line; exec {space.program} run a --quiet -- true",
                         stdin=subprocess.PIPE)
    for process in (first, second):
        assert process.stdout.readline() == "up\n"
    first.stdin.write("\n")
    first.stdin.close()
    space.waiting(1)
    second.stdin.write("\n")
    second.stdin.close()
    second.wait()
    assert second.returncode == 73, second.returncode
    error = second.stderr.read()
    assert re.search(r"^tenure: .*a.* waits for .*b", error), error
    assert first.wait() == 0


if __name__ == "__main__":
    main(globals())
