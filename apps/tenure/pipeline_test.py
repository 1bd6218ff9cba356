#!/usr/bin/env python3
"""`tenure pipeline`: real commands, signals, SIGKILL and resume."""
import contextlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import time

from harness import is_running, main, wait_for
from pipelines import Pipeline


THREE = """
jobs = 2
[task.build]
run = "echo build >>$HERE/ran"
[task.test]
needs = ["build"]
run = ["sh", "-c", "echo test >>$HERE/ran"]
[task.publish]
needs = ["test"]
run = "echo publish >>$HERE/ran"
"""


def pipeline_runs_in_order(space):
    pipeline = Pipeline(space, THREE)
    done = pipeline.run("run")
    assert pipeline.text("ran") == "build\ntest\npublish\n", pipeline.text("ran")
    assert "3 done" in done.out, done.out
    events = [json.loads(line) for line in pipeline.run("run", "--json").out.splitlines()]
    assert [event["event"] for event in events] == ["started", "ended"] * 3 + ["summary"], events
    assert events[-1]["done"] == 3
    status = json.loads(pipeline.run("status", "--json").out)
    assert status["state"] == "done" and status["run"] == "000002", status
    assert "nothing to resume" in pipeline.run("resume").out


def pipeline_p05_failure_blocks_and_is_resumed(space):
    pipeline = Pipeline(space, """
[task.a]
run = "echo output of a; echo a >>$HERE/ran; test -e $HERE/fixed"
[task.b]
needs = ["a"]
run = "echo b >>$HERE/ran"
[task.c]
run = "echo c >>$HERE/ran"
""")
    done = pipeline.run("run", "--keep-going", "--summary", space.file("out.xml"), status=1)
    assert "failed   a" in done.out and "exit status 1" in done.out, done.out
    assert "--- output of a\noutput of a\n---\n" in done.out, done.out
    assert "blocked: b, because a failed" in done.out, done.out
    assert '<failure message="exit status 1"/>' in pipeline.text("out.xml")
    (pipeline.directory / "fixed").touch()
    pipeline.run("resume", "--summary", space.file("out.md"))
    assert sorted(pipeline.text("ran").split()) == ["a", "a", "b", "c"], pipeline.text("ran")
    assert "| b | done |" in pipeline.text("out.md"), pipeline.text("out.md")


def pipeline_p01_output_is_whole(space):
    script = "for i in 1 2 3 4 5; do echo tN $i; sleep 0.01; done; false"
    tasks = "".join(f'[task.t{i}]\nrun = "{script}"\n'.replace("tN", f"t{i}") for i in range(4))
    done = Pipeline(space, "jobs = 4\n" + tasks).run("run", "--keep-going", status=1)
    for i in range(4):
        block = f"--- output of t{i}\n" + "".join(f"t{i} {n}\n" for n in range(1, 6)) + "---\n"
        assert block in done.out, done.out


def pipeline_retries_and_timeouts(space):
    pipeline = Pipeline(space, """
[task.flaky]
run = "echo x >>$HERE/tries; test $(wc -l <$HERE/tries) -ge 3"
retry = { max = 5, base = "10ms" }
[task.slow]
run = "sleep 1000 & sleep 1000"
timeout = "200ms"
grace = "1s"
""")
    done = pipeline.run("run", "--keep-going", status=1)
    assert "retry    flaky" in done.out, done.out
    assert "failed   slow" in done.out and "timed out" in done.out, done.out
    assert pipeline.text("tries") == "x\n" * 3


def pipeline_checks(space):
    pipeline = Pipeline(space, """
[task.already]
run = "echo already >>$HERE/ran"
done = { run = "true" }
[task.never]
run = "echo never >>$HERE/ran"
when = { run = "false" }
[task.later]
needs = ["already", "never"]
run = "echo later >>$HERE/ran; (sleep 0.3; touch $HERE/there) >/dev/null 2>&1"
verify = { run = "test -e $HERE/there", timeout = "20s", every = "20ms" }
""")
    done = pipeline.run("run")
    assert pipeline.text("ran") == "later\n", pipeline.text("ran")
    assert "skipped  never" in done.out, done.out


def pipeline_schema_is_checked_in(space):
    """For editors that read it from the repository."""
    checked_in = pathlib.Path(__file__).resolve().parents[2] / "docs/pipeline.schema.json"
    status, out, _ = space.do("pipeline", "schema")
    assert status == 0 and out == checked_in.read_text(encoding="utf-8"), (
        f"run: tenure pipeline schema >{checked_in}")


def pipeline_bad_manifest(space):
    pipeline = Pipeline(space, "[task.a]\nrunn = 'x'\n")
    done = pipeline.run("run", status=2)
    assert "pipeline.toml:2:1" in done.err and "run" in done.err, done.err
    assert not done.out
    pipeline = Pipeline(space, THREE)
    assert "did you mean 'build'" in pipeline.run("run", "--only", "biuld", status=2).err
    pipeline.run("fly", status=2)
    status, _, err = space.do("pipeline", "run", "/nowhere.toml")
    assert status == 1 and "/nowhere.toml" in err, (status, err)


def pipeline_selection(space):
    pipeline = Pipeline(space, THREE)
    pipeline.run("run", "--except", "test")
    assert pipeline.text("ran") == "build\npublish\n"
    pipeline.run("run", "--from", "test")
    assert pipeline.text("ran") == "build\npublish\ntest\npublish\n"
    dry = pipeline.run("run", "--dry-run", "--only", "build").out
    assert dry == "build: echo build >>$HERE/ran\n", dry
    assert pipeline.text("ran").count("\n") == 4


def pipeline_graph_and_plan(space):
    pipeline = Pipeline(space, THREE)
    assert "publish needs test" in pipeline.run("graph").out
    assert "n0 -> n1" in pipeline.run("graph", "--format", "dot").out
    assert "n0 ==> n1" in pipeline.run("graph", "--format", "mermaid").out
    graph = json.loads(pipeline.run("graph", "--format", "json").out)
    assert graph["critical_path"] == ["build", "test", "publish"], graph
    svg = pipeline.run("graph", "--format", "svg").out
    assert svg.startswith("<svg ") and svg.count("<text") == 3
    assert "estimate: unknown" in pipeline.run("plan").out
    pipeline.run("run")
    plan = pipeline.run("plan").out
    assert "wave 1: build\nwave 2: test\nwave 3: publish\n" in plan, plan
    assert "3 of 3 tasks were timed" in plan, plan


HANG = """
[task.hang]
run = "echo $$ >$HERE/pid; trap '' TERM; sleep 1000 & setsid sleep 1000 & wait; sleep 1000"
grace = "GRACE"
[task.next]
needs = ["hang"]
run = "echo next >>$HERE/ran"
"""


def _pid(pipeline):
    return int(wait_for("the command", lambda: pipeline.text("pid").strip()))


def pipeline_p03_a_second_interrupt_forces(space):
    pipeline = Pipeline(space, HANG.replace("GRACE", "1h"))
    run = pipeline.start("run")
    pid = _pid(pipeline)
    run.send_signal(signal.SIGINT)
    wait_for("the message", lambda: "cancelling" in run.stdout.readline())
    run.send_signal(signal.SIGINT)
    run.communicate()
    assert run.returncode == 130, run.returncode
    assert not is_running(pid)


def pipeline_terminates_politely(space):
    pipeline = Pipeline(space, """
[task.polite]
run = "trap 'echo bye >>$HERE/ran; exit 3' TERM; echo $$ >$HERE/pid; sleep 1000 & wait"
""")
    run = pipeline.start("run")
    _pid(pipeline)
    run.send_signal(signal.SIGTERM)
    out, _ = run.communicate()
    assert run.returncode == 130 and pipeline.text("ran") == "bye\n", out
    assert "1 cancelled" in out and "resume" in out, out


def pipeline_p04_says_what_is_still_running(space):
    pipeline = Pipeline(space, HANG.replace("GRACE", "10ms"))
    run = pipeline.start("run", "--report", "50ms")
    wait_for("the line", lambda: "still running: hang (" in run.stdout.readline())
    run.send_signal(signal.SIGTERM)
    run.communicate()


def pipeline_pauses_and_resumes(space):
    pipeline = Pipeline(space, """
[task.a]
run = "touch $HERE/began; while ! test -e $HERE/go; do sleep 0.02; done"
[task.b]
needs = ["a"]
run = "echo b >>$HERE/ran"
""")
    run = pipeline.start("run")
    wait_for("a", lambda: (pipeline.directory / "began").exists())
    run.send_signal(signal.SIGUSR1)
    wait_for("the message", lambda: "paused" in run.stdout.readline())
    (pipeline.directory / "go").touch()
    wait_for("the end of a", lambda: "done     a" in run.stdout.readline())
    assert run.poll() is None and pipeline.text("ran") == ""
    run.send_signal(signal.SIGUSR2)
    assert run.wait() == 0 and pipeline.text("ran") == "b\n"


def pipeline_problem6_one_run_per_workspace(space):
    pipeline = Pipeline(space, HANG.replace("GRACE", "10ms"))
    run = pipeline.start("run")
    _pid(pipeline)
    second = pipeline.run("run", status=75)
    assert f"process {run.pid}" in second.err, second.err
    assert json.loads(pipeline.run("status", "--json").out)["state"] == "running"
    waits = pipeline.start("run", "--wait", "--only", "next")
    wait_for("the message", lambda: "waiting" in waits.stderr.readline())
    run.kill()  # A dead holder is known to be dead.
    run.wait()
    assert waits.wait() == 0 and pipeline.text("ran") == "next\n"


def pipeline_killed_and_resumed(space):
    """SIGKILL at some moment; what is recorded as done is not repeated, nothing survives."""
    tasks = "".join(
        f'[task.t{i}]\nneeds = [{chr(34) + f"t{i-1}" + chr(34) if i else ""}]\n'
        f'run = "echo t{i} >>$HERE/began; sleep 0.02; echo t{i} >>$HERE/ran"\n' for i in range(12))
    pipeline = Pipeline(space, tasks)
    action = "run"
    told = []
    for kills in range(6):
        run = pipeline.start(action)
        wanted = 2 * kills + 1
        wait_for("some tasks", lambda: run.poll() is not None
                 or pipeline.text("ran").count("\n") >= wanted)
        run.kill()
        out, _ = run.communicate()
        told += [(task, pipeline.text("began").split().count(task))
                 for task in re.findall(r"done +(t\d+) ", out)]
        action = "resume"
        # Guardians end what is left; until then the lock of the workspace may be free already.
        wait_for("no survivors", lambda: not _survivors(pipeline))
    pipeline.run("resume")
    began = pipeline.text("began").split()
    order = [task for i, task in enumerate(began) if task not in began[:i]]
    assert order == [f"t{i}" for i in range(12)], began
    # What was told to be done is on record, and never began again.
    assert all(began.count(task) == times for task, times in told), (told, began)
    assert len(began) <= 12 + 6, f"more was repeated than was killed: {began}"
    assert pipeline.run("status").out.splitlines()[0].endswith("done")


def _survivors(pipeline):
    mark = f"HERE={pipeline.directory}".encode()
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if mark in environment and is_running(int(entry.name)):
            found.append(int(entry.name))
    return found


# A child, a pair in a session of its own, and a daemon that forked twice.
LEAVES = ("sleep 900 & setsid sh -c 'sleep 902 & sleep 903' & (setsid sleep 904 &); "
          "echo $PPID >>$HERE/guardians; sleep 0.03")
DAEMONS = "".join(f"""
[task.t{i}]
run = "{LEAVES}"
grace = "10ms"
""" for i in range(40))


def pipeline_kills_leave_nothing(space):
    """SIGKILL of the runner, or of a guardian, at random moments; TENURE_KILLS=50 for more."""
    randomness = random.Random(int(os.environ.get("TENURE_SEED", "1")))
    pipeline = Pipeline(space, "jobs = 2\n" + DAEMONS)
    for _ in range(int(os.environ.get("TENURE_KILLS", "4"))):
        space.file("guardians").unlink(missing_ok=True)
        run = pipeline.start("run")
        guardians = wait_for("a command", lambda: pipeline.text("guardians").split())
        time.sleep(randomness.random() * 0.1)
        if randomness.random() < 0.5:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(guardians[0]), signal.SIGKILL)
            time.sleep(randomness.random() * 0.05)
            run.terminate()
        else:
            run.kill()
        run.communicate()
        wait_for("no survivors", lambda: not _survivors(pipeline))


def pipeline_problem7_input_blocks_no_end(space):
    """Standard input stays open and silent: the run ends, and Ctrl-C ends it, all the same."""
    pipeline = Pipeline(space, THREE)
    run = space.start("pipeline", "run", pipeline.file, environment=pipeline.environment,
                      stdin=subprocess.PIPE)
    assert run.wait() == 0
    pipeline = Pipeline(space, HANG.replace("GRACE", "10ms"))
    run = space.start("pipeline", "run", pipeline.file, environment=pipeline.environment,
                      stdin=subprocess.PIPE)
    _pid(pipeline)
    run.send_signal(signal.SIGINT)
    assert run.wait() == 130


def pipeline_once_is_not_repeated(space):
    pipeline = Pipeline(space, """
[task.pay]
once = true
run = "echo pay >>$HERE/ran; echo $$ >$HERE/pid; sleep 1000"
""")
    run = pipeline.start("run")
    _pid(pipeline)
    run.kill()
    run.wait()
    done = pipeline.run("resume", status=1)
    assert "may run only once" in done.out, done.out
    assert pipeline.text("ran") == "pay\n"


def pipeline_changed_manifest_is_explained(space):
    pipeline = Pipeline(space, THREE.replace("echo publish >>$HERE/ran", "false"))
    pipeline.run("run", status=1)
    pipeline.file.write_text(THREE.replace("echo build", "echo BUILD"))
    done = pipeline.run("resume")
    assert "build changed since the run began; it was done before that" in done.err, done.err
    assert "publish changed since the run began; it runs as it is now" in done.err, done.err
    assert pipeline.text("ran") == "build\ntest\npublish\n"


def pipeline_locks_are_held(space):
    pipeline = Pipeline(space, "jobs = 4\n" + "".join(f"""
[task.t{i}]
locks = ["registry"]
run = "mkdir $HERE/alone && sleep 0.02 && rmdir $HERE/alone"
""" for i in range(6)))
    pipeline.run("run")


def pipeline_lost_locks_end_the_attempt(space):
    pipeline = Pipeline(space, """
[task.a]
locks = ["registry", "other"]
run = "trap '' TERM; test -e $HERE/again && exit; touch $HERE/again; echo $$ >$HERE/pid; sleep 1000"
retry = { max = 1, base = "1ms" }
""")
    run = pipeline.start("run")
    pid = _pid(pipeline)
    held = next(one for one in space.tickets() if "registry" in json.dumps(one["claims"]))
    assert space.do("evict", held["token"]) == (0, "", "")
    out, _ = run.communicate()
    assert run.returncode == 0 and "one of its locks was lost" in out, out
    assert not is_running(pid)


def pipeline_guardian_killed(space):
    pipeline = Pipeline(space, """
[task.a]
run = "test -e $HERE/again && exit; touch $HERE/again; echo $PPID >$HERE/pid; sleep 1000"
retry = { max = 1, base = "1ms" }
""")
    run = pipeline.start("run")
    os.kill(_pid(pipeline), signal.SIGKILL)
    out, _ = run.communicate()
    assert run.returncode == 0 and "its guardian was killed" in out, out


if __name__ == "__main__":
    main(globals())
