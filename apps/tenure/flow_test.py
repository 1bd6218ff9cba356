#!/usr/bin/env python3
"""tenure flow: workflows that another process runs, seen and told from outside.

    flow_test.py CASE PROGRAM
"""
import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess

from harness import LIMIT, main, state_of, wait_for
from terminal_test import Screen


class _Worker:
    """A process with an engine on the space's store."""

    def __init__(self, space):
        self.process = subprocess.Popen(
            [os.environ["TENURE_FLOW_WORKER"], space.environment["TENURE_SPACE"]],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        space.started.append(self.process)
        assert self.process.stdout.readline() == "ready\n"

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, line):
        self.tell(line)
        return self.process.stdout.readline().strip()


def _json(space, *arguments):
    status, out, error = space.do("flow", *arguments, "--json")
    assert (status, error) == (0, ""), (status, out, error)
    return json.loads(out)


def _states(space, *arguments):
    return {one["id"]: one["state"] for one in _json(space, "ls", *arguments)["workflows"]}


def _shown(space, workflow, text):
    """The output of show, once it contains `text`."""
    def shown():
        status, out, error = space.do("flow", "show", workflow)
        return out if status == 0 and text in out else None
    return wait_for(f"{text!r} in show {workflow}", shown)


def flow_lists_and_changes_schedules(space):
    worker = _Worker(space)

    def yearly():
        found = [one for one in _json(space, "schedules")["schedules"] if "due" in one]
        return found[0] if found else None
    first = wait_for("the schedule and its time", yearly)
    assert (first["id"], first["type"], first["overlap"]) == ("yearly", "order", "skip"), first
    assert first["next"][0] == first["due"] and len(first["next"]) == 5, first
    assert first["due"].endswith("-12-31T23:00:00.000Z"), first  # Midnight in Berlin.

    assert space.do("flow", "schedules", "pause", "yearly") == (0, "", "")
    status, out, _ = space.do("flow", "schedules")
    assert status == 0 and out.splitlines()[0].split() == [
        "ID", "TYPE", "TIMES", "NEXT", "LAST", "COUNT"], out
    assert "paused" in out and "0 0 1 1 * Europe/Berlin" in out and "never" in out, out
    assert _json(space, "schedules", "resume", "yearly")["paused"] is False

    assert space.do("flow", "schedules", "trigger", "yearly") == (0, "", "")

    def run():
        found = _json(space, "ls", "--tag", "schedule=yearly")["workflows"]
        return found[0] if found and found[0]["state"] == "failed" else None
    failed = wait_for("the run that was triggered", run)
    assert failed["id"].startswith("yearly@"), failed
    assert worker.ask("wait " + failed["id"]).endswith("there is no such item")

    status, _, error = space.do("flow", "schedules", "pause", "daily")
    assert (status, error) == (1, "tenure: there is no schedule 'daily'; "
                               "'tenure flow schedules' lists them\n"), (status, error)
    status, _, error = space.do("flow", "schedules", "stop", "daily")
    assert status == 2 and "pause, resume or trigger" in error, (status, error)


def flow_lists_and_shows(space):
    worker = _Worker(space)
    worker.tell("start first lamp")
    shown = _shown(space, "first", "holds warehouse")
    assert "type      order" in shown and 'input     ["lamp"]' in shown, shown
    assert "step done" in shown and "reserve" in shown and "shelf 7" in shown, shown
    worker.tell("start second chair")
    shown = _shown(space, "second", "waits for warehouse")
    assert "blocked by first" in shown, shown
    worker.tell("start third nothing")
    assert worker.ask("wait third") == (
        "third failed step 'reserve' failed: there is no such item")
    assert "attempt failed" in _shown(space, "third", "step failed")

    assert _states(space) == {"first": "running", "second": "running", "third": "failed"}
    assert _states(space, "--state", "failed") == {"third": "failed"}
    assert _states(space, "--tag", "item=chair") == {"second": "running"}
    assert _states(space, "--type", "other") == {}
    assert len(_states(space, "--since", "1h")) == 3
    status, out, error = space.do("flow", "ls")
    assert (status, error) == (0, ""), error
    assert out.splitlines()[0].split() == ["ID", "TYPE", "STATE", "AGE", "TAGS"], out
    assert len(out.splitlines()) == 4, out
    history = [json.loads(line)
               for line in space.do("flow", "history", "third", "--json")[1].splitlines()]
    assert [(one["kind"], one["attempt"]) for one in history] == [
        ("attempt failed", 1), ("step failed", 2)], history


def flow_draws_the_timeline(space):
    """On a terminal; and it says for what a workflow sleeps."""
    worker = _Worker(space)
    worker.tell("nap night")
    wait_for("the second sleep", lambda: "night" in _states(space) and (
        len(_json(space, "show", "night")["history"]) == 2))
    assert len(_json(space, "show", "night")["timers"]) == 1
    shown = _shown(space, "night", "timer     due 20")
    assert re.search(r"\n  timer     due \S+Z \(in 23h5\dm\)\n", shown), shown
    assert "●" not in shown, shown
    screen = Screen(space, space.program, "flow", "show", "night", columns=100, TERM="xterm",
                    NO_COLOR="1")
    shown, status = screen.end()
    assert status == 0, shown
    drawn = [line.rstrip() for line in shown.splitlines() if "●" in line]
    assert [line.split("●")[1].split()[:2] for line in drawn] == [
        ["step", "done"], ["timer", "sleep"]], shown
    assert all(len(line) <= 100 for line in drawn), drawn
    # The second one begins where the first one ends.
    assert drawn[1].index("●") >= drawn[0].index("●"), drawn


def flow_locks_are_in_the_views(space):
    """Any SQLite tool sees the tickets of workflows as it sees those of processes."""
    worker = _Worker(space)
    worker.tell("start first lamp")
    _shown(space, "first", "holds warehouse")
    worker.tell("start second chair")
    _shown(space, "second", "waits for warehouse")
    process = space.start("run", "warehouse", "--", "true")
    space.waiting(2)
    with contextlib.closing(sqlite3.connect(space.file("space.db"))) as database:
        rows = database.execute(
            "SELECT owner, granted, pid, label, anchor IS NOT NULL, mode FROM tenure_tickets "
            "WHERE path = 'warehouse' ORDER BY token").fetchall()
        assert rows[:2] == [("first", 1, worker.process.pid, "flow engine", 1, "exclusive"),
                            ("second", 0, worker.process.pid, "flow engine", 1, "exclusive")], rows
        assert [row[1:5] for row in rows[2:]] == [(0, process.pid, "true", 0)], rows
        assert database.execute("SELECT owner FROM tenure_holders WHERE path = 'warehouse'"
                                ).fetchall() == [("first",)]
        assert database.execute("SELECT count(*) FROM tenure_waiters WHERE path = 'warehouse'"
                                ).fetchall() == [(2,)]


def flow_exports_for_a_replay(space):
    worker = _Worker(space)
    worker.tell("start first lamp")
    _shown(space, "first", "holds warehouse")
    status, out, error = space.do("flow", "export", "first")
    assert (status, error) == (0, ""), error
    history = json.loads(out)
    assert (history["tenure_history"], history["id"], history["input"]) == (1, "first", '["lamp"]')
    assert [one["kind"] for one in history["entries"]] == ["step done", "lock granted"], history
    path = os.path.join(space.directory, "first.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(out)
    assert worker.ask("replay " + path) == "fits"
    with open(path, "w", encoding="utf-8") as file:
        file.write(out.replace('"reserve"', '"order"'))
    assert worker.ask("replay " + path).startswith("entry 0: workflow 'first'")


def flow_replays_with_the_program_of_the_user(space):
    """The definitions are in the user's program; this one brings it the histories."""
    worker = _Worker(space)
    program = os.environ["TENURE_FLOW_WORKER"]
    worker.tell("start first lamp")
    _shown(space, "first", "holds warehouse")
    worker.tell("start second/2 nothing")
    worker.ask("wait second/2")
    assert space.do("flow", "replay", "--program", program, "first") == (
        0, "first: fits\n", "tenure: 1 history replayed\n")
    status, out, _ = space.do("flow", "replay", "--program", program)
    assert status == 0 and sorted(out.splitlines()) == ["first: fits", "second/2: fits"], out
    space.environment["FLOW_WORKER_STEP"] = "order"
    status, out, _ = space.do("flow", "replay", "--program", program, "--state", "running")
    assert status == 1 and out.startswith("first: entry 0: workflow 'first'"), (status, out)
    status, out, _ = space.do("flow", "replay", "--program", program, "--json")
    report = json.loads(out)
    assert (status, report["replayed"]) == (1, 2), report
    assert all(not one["fits"] and "entry 0" in one["text"] for one in report["histories"]), report
    del space.environment["FLOW_WORKER_STEP"]
    status, _, error = space.do("flow", "replay", "--program", "/bin/true")
    assert status == 1 and "said nothing of workflow" in error, error
    status, _, error = space.do("flow", "replay", "--program", "/nowhere/at/all")
    assert status == 1 and "cannot be run: No such file" in error, error
    status, _, error = space.do("flow", "replay", "first")
    assert status == 2 and "no --program given" in error, error


def flow_takes_over_from_a_stopped_engine(space):
    """On SQLite a stopped engine is alive, and its workflows wait until somebody steps in."""
    stopped = _Worker(space)
    stopped.tell("start first lamp")
    _shown(space, "first", "holds warehouse")
    pid = stopped.process.pid
    engines = _json(space, "engines")["engines"]
    assert [(one["pid"], one["partitions"], one["stopped"]) for one in engines] == [
        (pid, 64, False)], engines
    os.kill(pid, signal.SIGSTOP)
    wait_for("the stop", lambda: state_of(pid) == "T")
    other = _Worker(space)
    status, out, error = space.do("flow", "engines")
    assert (status, error) == (0, ""), error
    row = [line.split() for line in out.splitlines() if str(pid) in line.split()]
    assert out.startswith("ENGINE") and row[0][3:5] == ["stopped", "64"], out
    assert space.do("flow", "signal", "first", "approve", "Ann") == (0, "", "")
    status, out, error = space.do("flow", "take-over", str(pid))
    assert (status, error) == (0, "") and out.startswith("64 partitions taken from"), out
    assert other.ask("wait first") == "first completed Ann approved lamp of shelf 7"
    # It goes on as one engine of two, and loses nothing when the other one dies.
    os.kill(pid, signal.SIGCONT)
    stopped.tell("start second chair")
    _shown(space, "second", "holds warehouse")
    wait_for("its partitions", lambda: [
        one for one in _json(space, "engines")["engines"]
        if one["pid"] == pid and 0 < one["partitions"] < 64])
    other.process.kill()
    other.process.wait()
    assert space.do("flow", "signal", "second", "approve", "Bob") == (0, "", "")
    assert stopped.ask("wait second") == "second completed Bob approved chair of shelf 7"
    status, _, error = space.do("flow", "take-over", "nobody")
    assert status == 1 and "there is no engine 'nobody'" in error, error
    status, _, error = space.do("flow", "take-over")
    assert status == 2 and "no ENGINE given" in error, error


def flow_rows_are_in_the_views(space):
    """Any SQLite tool reads workflows and their logs."""
    worker = _Worker(space)
    worker.tell("start first lamp")
    _shown(space, "first", "holds warehouse")
    worker.tell("start bad nothing")
    worker.ask("wait bad")
    with contextlib.closing(sqlite3.connect(space.file("space.db"))) as database:
        rows = database.execute(
            "SELECT id, type, state, input, tags ->> '$.item', result ->> '$.message' "
            "FROM tenure_flows ORDER BY created").fetchall()
        assert rows == [("first", "order", "running", '["lamp"]', "lamp", None),
                        ("bad", "order", "failed", '["nothing"]', "nothing",
                         "step 'reserve' failed: there is no such item")], rows
        rows = database.execute(
            "SELECT number, kind, name, attempt, value FROM tenure_flow_log "
            "WHERE workflow = 'first' ORDER BY number").fetchall()
        assert rows[0] == (0, "step done", "reserve", 1, '"shelf 7"'), rows
        assert rows[1][:2] == (1, "lock granted"), rows
        assert database.execute("SELECT count(*) FROM tenure_flow_log WHERE workflow = 'bad' "
                                "AND kind = 'attempt failed'").fetchall() == [(1,)]


def flow_pages(space):
    worker = _Worker(space)
    for number in range(7):
        worker.tell(f"start w{number} nothing")
        worker.ask(f"wait w{number}")
    seen = []
    after = []
    while True:
        page = _json(space, "ls", "--limit", "3", *after)
        seen += [one["id"] for one in page["workflows"]]
        if "after" not in page:
            break
        after = ["--after", page["after"]]
    assert sorted(seen) == [f"w{number}" for number in range(7)], seen
    status, out, error = space.do("flow", "ls", "--limit", "3")
    assert status == 0 and "repeat with --after" in error, error


def flow_signals_without_an_engine(space):
    """What is sent while no engine runs is acted on by the next one; a repeated one only once."""
    worker = _Worker(space)
    worker.tell("start first lamp")
    _shown(space, "first", "holds warehouse")
    worker.process.kill()
    worker.process.wait()
    for _ in range(2):
        assert space.do("flow", "signal", "first", "approve", "Ann", "--message-id", "1") == (
            0, "", "")
    assert _states(space) == {"first": "running"}, "this program runs no workflow"
    worker = _Worker(space)
    assert worker.ask("wait first") == "first completed Ann approved lamp of shelf 7"
    assert _json(space, "show", "first")["result"] == "Ann approved lamp of shelf 7"
    kinds = [one["kind"] for one in _json(space, "show", "first")["history"]]
    assert kinds.count("signal") == 1, kinds


def flow_ends_workflows(space):
    worker = _Worker(space)
    worker.tell("start first lamp")
    _shown(space, "first", "holds warehouse")
    worker.tell("start second chair")
    _shown(space, "second", "waits for warehouse")
    assert space.do("flow", "terminate", "first", "wrong item") == (0, "", "")
    assert worker.ask("wait first") == "first cancelled wrong item"
    _shown(space, "second", "holds warehouse")
    assert _json(space, "cancel", "second") == {"id": "second", "sent": True}
    assert worker.ask("wait second").startswith("second cancelled")
    wait_for("no locks", lambda: not [ticket for ticket in space.tickets("warehouse")])
    status, out, error = space.do("flow", "signal", "first", "approve")
    assert status == 1 and "has ended (cancelled)" in error, error


def flow_retries_a_failed_workflow(space):
    worker = _Worker(space)
    worker.tell("start bad nothing")
    assert worker.ask("wait bad").endswith("there is no such item")
    assert space.do("flow", "retry", "bad") == (0, "bad~2\n", "")
    wait_for("the retry", lambda: _states(space).get("bad~2") == "failed")
    assert _json(space, "retry", "bad") == {"id": "bad~3", "sent": True}
    wait_for("the next retry", lambda: _states(space).get("bad~3") == "failed")
    assert _json(space, "show", "bad~3")["tags"]["retry_of"] == "bad"
    status, _, error = space.do("flow", "retry", "none")
    assert status == 1 and "there is no workflow 'none'" in error, error
    worker.tell("start good lamp")
    _shown(space, "good", "holds warehouse")
    assert space.do("flow", "retry", "good") == (0, "good\n", "")  # It goes on as it was.
    assert space.do("flow", "signal", "good", "approve", "Ann") == (0, "", "")
    assert worker.ask("wait good").startswith("good completed")
    status, _, error = space.do("flow", "retry", "good")
    assert status == 1 and "is completed: only one that failed" in error, error


def flow_releases_a_lock_by_force(space):
    worker = _Worker(space)
    worker.tell("start first lamp")
    _shown(space, "first", "holds warehouse")
    worker.tell("start second chair")
    _shown(space, "second", "waits for warehouse")
    status, _, error = space.do("flow", "release", "first", "attic")
    assert status == 1 and "does not hold 'attic'; it holds: warehouse" in error, error
    status, _, error = space.do("flow", "release", "first")
    assert status == 2 and "no PATH given" in error, error
    assert space.do("flow", "release", "first", "warehouse") == (0, "", "")
    _shown(space, "second", "holds warehouse")


def flow_shows_the_position_in_a_queue(space):
    worker = _Worker(space)
    for name in ("one", "two", "three"):
        worker.tell(f"queue {name}")
    wait_for("the queue", lambda: _states(space).get("three") == "queued")
    _, out, _ = space.do("flow", "ls", "--type", "alone")
    rows = {line.split()[0]: line for line in out.splitlines()[1:]}
    assert "running" in rows["one"] and "queued 0" in rows["two"], out
    assert "queued 1" in rows["three"], out
    assert "three queued 1" in space.do("flow", "show", "three")[1]
    assert _json(space, "show", "three")["position"] == 1
    assert space.do("flow", "terminate", "two") == (0, "", "")
    wait_for("a better position", lambda: _json(space, "show", "three").get("position") == 0)


def flow_names_a_stopped_engine(space):
    """It counts as alive; doctor and programs that wait say which process it is."""
    worker = _Worker(space)
    worker.tell("start first lamp")
    _shown(space, "first", "holds warehouse")
    pid = worker.process.pid
    os.kill(pid, signal.SIGSTOP)
    wait_for("the stop", lambda: state_of(pid) == "T")
    status, out, error = space.do("doctor")
    assert (status, error) == (1, ""), (status, out, error)
    assert f"pid {pid} (stopped)" in out, out
    assert f"process {pid} ('flow engine') is stopped" in out and f"kill -CONT {pid}" in out, out
    assert "lock and release" not in out, "it might wait for the stopped process"
    found = [one for one in json.loads(space.do("doctor", "--json")[1])["sessions"]
             if one["pid"] == pid]
    assert found and all(one["alive"] and one["stopped"] for one in found), found

    waiting = subprocess.Popen([space.program, "run", "warehouse", "--", "true"],
                               env=space.environment, stderr=subprocess.PIPE, text=True)
    space.started.append(waiting)
    line = waiting.stderr.readline()
    assert "waiting for warehouse: held by first 'flow engine'" in line, line
    assert f"pid {pid}, stopped)" in line, line
    # Another engine takes over when it is killed.
    other = _Worker(space)
    os.kill(pid, signal.SIGKILL)
    worker.process.wait()
    assert space.do("flow", "signal", "first", "approve", "Ann") == (0, "", "")
    assert other.ask("wait first") == "first completed Ann approved lamp of shelf 7"
    assert waiting.wait(timeout=LIMIT) == 0
    status, out, error = space.do("doctor")
    assert status == 0 and "stopped" not in out and "lock and release" in out, out


def flow_says_what_is_wrong(space):
    def refusal(*arguments, status=2):
        got, out, error = space.do("flow", *arguments)
        assert (got, out) == (status, "") and error.count("\n") == 1, (got, out, error)
        return error
    assert "there is no file" in refusal("ls", status=1)
    assert space.do("run", "book", "--", "true")[0] == 0
    assert space.do("flow", "ls") == (0, "ID  TYPE  STATE  AGE  TAGS\n", "")
    assert "no engine has used it" in refusal("show", "first", status=1)
    worker = _Worker(space)
    worker.tell("start first lamp")
    _shown(space, "first", "holds warehouse")
    assert "there is no workflow 'other'; 'tenure flow ls' lists them" in refusal(
        "show", "other", status=1)
    assert "ACTION must be ls, show" in refusal("list")
    assert "no ID given" in refusal("show")
    assert "no NAME given" in refusal("signal", "first")
    assert "--state must be" in refusal("ls", "--state", "done")
    assert "--tag takes NAME=VALUE" in refusal("ls", "--tag", "item")
    assert "--limit takes a number" in refusal("ls", "--limit", "0")
    assert "ls takes no ID" in refusal("ls", "first")


if __name__ == "__main__":
    main(globals())
