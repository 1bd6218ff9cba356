#!/usr/bin/env python3
"""`tenure pipeline`: files that tasks edit, and checks that ask an HTTP server."""
import contextlib
import http.server
import json
import os
import pathlib
import signal
import tarfile
import threading

from harness import main, wait_for
from pipelines import Pipeline

PACKAGE = '{\n  "name": "a",\n\t"version": "1.0.0"   ,\n  "x": [1,2]\n}\n'


def _package(space, name="package.json"):
    file = space.file(name)
    file.write_text(PACKAGE, encoding="utf-8")
    os.chmod(file, 0o640)
    os.utime(file, (1_000_000_000, 1_000_000_001))
    return file, file.stat()


def _unchanged(file, before):
    after = file.stat()
    assert file.read_text(encoding="utf-8") == PACKAGE, file.read_text(encoding="utf-8")
    for field in ("st_ino", "st_mode", "st_uid", "st_mtime_ns", "st_nlink"):
        assert getattr(after, field) == getattr(before, field), field


def _nothing_left(pipeline):
    """Neither beside the files nor in the state directory."""
    edits = pipeline.directory / "state/tenure/pipelines/edits"
    left = [entry.name for entry in edits.iterdir()] if edits.exists() else []
    assert not [name for name in left if name.startswith("session-")], left
    assert not list(pipeline.directory.glob("._tenure*"))


EDIT = """
[task.publish]
edits = [{ file = "package.json", set = { version = "9.9.9" } }]
run = "COMMAND"
grace = "100ms"
"""
HANG = "cat package.json >$HERE/seen; echo $$ >$HERE/pid; sleep 1000"


def edits_last_as_long_as_the_command(space):
    file, before = _package(space)
    pipeline = Pipeline(space, EDIT.replace("COMMAND", "cp package.json $HERE/seen")
                        + 'verify = { run = "cmp package.json $HERE/expected" }\n')
    space.file("expected").write_text(PACKAGE, encoding="utf-8")
    pipeline.run("run")
    assert pipeline.text("seen") == PACKAGE.replace("1.0.0", "9.9.9")
    _unchanged(file, before)
    _nothing_left(pipeline)


def edits_are_restored_after_a_failure(space):
    file, before = _package(space)
    pipeline = Pipeline(space, EDIT.replace("COMMAND", "cp package.json $HERE/seen; exit 3"))
    pipeline.run("run", status=1)
    assert "9.9.9" in pipeline.text("seen")
    _unchanged(file, before)
    _nothing_left(pipeline)


def _edits_signal(space, *signals):
    file, before = _package(space)
    pipeline = Pipeline(space, EDIT.replace("COMMAND", HANG))
    run = pipeline.start("run")
    wait_for("the command", lambda: pipeline.text("pid").strip())
    assert "9.9.9" in file.read_text(encoding="utf-8")
    for number in signals:
        run.send_signal(number)
        wait_for("the message", lambda: "ing" in run.stdout.readline())
    run.communicate()
    assert run.returncode == 130, run.returncode
    _unchanged(file, before)
    _nothing_left(pipeline)


def edits_are_restored_after_sigint(space):
    _edits_signal(space, signal.SIGINT)


def edits_are_restored_after_sigterm(space):
    _edits_signal(space, signal.SIGTERM)


def _killed_while_edited(space):
    file, before = _package(space)
    pipeline = Pipeline(space, EDIT.replace("COMMAND", HANG))
    run = pipeline.start("run")
    pid = int(wait_for("the command", lambda: pipeline.text("pid").strip()))
    run.kill()
    run.wait()
    wait_for("the end of the command", lambda: not os.path.exists(f"/proc/{pid}"))
    assert "9.9.9" in file.read_text(encoding="utf-8")
    return pipeline, file, before


def edits_are_restored_by_the_next_start(space):
    pipeline, file, before = _killed_while_edited(space)
    pipeline.file.write_text(EDIT.replace("COMMAND", "cp package.json $HERE/seen"))
    done = pipeline.run("resume")
    assert "restored '" in done.err and "package.json'" in done.err, done.err
    assert "9.9.9" in pipeline.text("seen")
    _unchanged(file, before)
    _nothing_left(pipeline)


def edits_are_restored_by_another_manifest(space):
    """One without edits: it must not find the file as the dead run left it."""
    pipeline, file, before = _killed_while_edited(space)
    pipeline.file = space.file("other.toml")
    pipeline.file.write_text('[task.a]\nrun = "cp package.json $HERE/seen"\n')
    pipeline.run("run")
    assert pipeline.text("seen") == PACKAGE
    _unchanged(file, before)


def edits_are_restored_by_restore(space):
    pipeline, file, before = _killed_while_edited(space)
    assert "restored '" in pipeline.run("restore").out
    _unchanged(file, before)
    _nothing_left(pipeline)
    assert "nothing to restore" in pipeline.run("restore").out


def edits_of_others_are_kept(space):
    """Somebody writes the file while it is edited: both versions survive, and the run says so."""
    file, _ = _package(space)
    pipeline = Pipeline(space, EDIT.replace("COMMAND", "echo mine >package.json"))
    done = pipeline.run("run", status=1)
    assert file.read_text(encoding="utf-8") == "mine\n"
    kept = list((pipeline.directory / "state/tenure/pipelines/edits/kept").iterdir())
    assert [one.read_text(encoding="utf-8") for one in kept] == [PACKAGE], done.out
    assert str(kept[0]) in done.out, done.out


def edits_of_one_file_wait_for_each_other(space):
    """Six tasks edit one file: by its name, through a symlink and by a hard link."""
    file, _ = _package(space)
    os.link(file, space.file("hard.json"))
    space.file("soft.json").symlink_to("package.json")
    before = file.stat()
    script = ("mkdir $HERE/alone && cat NAME >>$HERE/seen && sleep 0.05 && "
              "rmdir $HERE/alone")
    names = ["package.json", "soft.json", "hard.json"] * 2
    pipeline = Pipeline(space, "jobs = 6\n" + "".join(f"""
[task.t{i}]
edits = [{{ file = "{name}", set = {{ version = "9.9.{i}" }} }}]
run = "{script.replace("NAME", name)}"
""" for i, name in enumerate(names)))
    pipeline.run("run")
    for i in range(6):
        assert pipeline.text("seen").count(f'"version": "9.9.{i}"   ,') == 1
    _unchanged(file, before)


def edits_of_two_runs_exclude_each_other(space):
    file, before = _package(space)
    pipeline = Pipeline(space, EDIT.replace("COMMAND", HANG))
    run = pipeline.start("run")
    wait_for("the command", lambda: pipeline.text("pid").strip())
    pipeline.file = space.file("other.toml")
    pipeline.file.write_text(EDIT.replace("COMMAND", "true").replace("9.9.9", "8.8.8"))
    second = pipeline.run("run", status=1)
    assert "is being edited by another task or run" in second.out, second.out
    assert "9.9.9" in file.read_text(encoding="utf-8")
    run.send_signal(signal.SIGTERM)
    run.communicate()
    _unchanged(file, before)


def edits_that_are_refused_change_nothing(space):
    file, before = _package(space)
    pipeline = Pipeline(space, """
[task.publish]
edits = [{ file = "package.json", set = { version = "9.9.9" } },
         { file = "missing.json", set = { version = "9.9.9" } }]
run = "echo ran >$HERE/ran"
""")
    done = pipeline.run("run", status=1)
    assert "missing.json' can't be edited: No such file" in done.out, done.out
    assert pipeline.text("ran") == ""
    _unchanged(file, before)


# ---- Workspaces ----

# Stands for npm: `view` finds what `publish` has put there. registry_test.py has the real one.
NPM = """#!/bin/sh
name=$(sed -n 's/.*"name":"\\([^"]*\\)".*/\\1/p' package.json)
case $1 in
view) cat "$HERE/published/$2" 2>/dev/null ;;
publish) cp package.json "$HERE/published/$name@1.0.0" ;;
esac
"""


def _npm_workspace(space, packages):
    pipeline = Pipeline(space, "")
    pipeline.file = space.file("root")
    (pipeline.file / "packages").mkdir(parents=True)
    (pipeline.file / "package.json").write_text('{"private":true,"workspaces":["packages/*"]}')
    for name, needs in packages.items():
        package = pipeline.file / "packages" / name
        package.mkdir()
        (package / "package.json").write_text(
            json.dumps({"name": name, "version": "1.0.0", "dependencies": needs},
                       separators=(",", ":")))
    space.file("published").mkdir()
    tools = space.file("tools")
    tools.mkdir()
    (tools / "npm").write_text(NPM)
    (tools / "npm").chmod(0o755)
    pipeline.environment["PATH"] = f"{tools}:{os.environ['PATH']}"
    return pipeline


def workspace_is_published_in_order(space):
    pipeline = _npm_workspace(space, {"a": {"b": "workspace:^"}, "b": {"c": "*"}, "c": {}})
    plan = pipeline.run("plan", "--workspace", "npm").out
    assert plan.startswith("wave 1: c\nwave 2: b\nwave 3: a\n"), plan
    files = sorted((pipeline.file / "packages").glob("*/package.json"))
    before = [(file.read_bytes(), file.stat().st_ino) for file in files]
    done = pipeline.run("run", "--workspace", "npm")
    assert [line.split()[1] for line in done.out.splitlines() if line.startswith("done")] == [
        "c", "b", "a"], done.out
    assert json.loads(pipeline.text("published/a@1.0.0"))["dependencies"] == {"b": "^1.0.0"}
    assert json.loads(pipeline.text("published/b@1.0.0"))["dependencies"] == {"c": "1.0.0"}
    assert [(file.read_bytes(), file.stat().st_ino) for file in files] == before
    for file in space.file("published").iterdir():
        file.write_text("there")
    pipeline.run("run", "--workspace", "npm")
    assert pipeline.text("published/a@1.0.0") == "there"


def workspace_errors_publish_nothing(space):
    pipeline = _npm_workspace(space, {"a": {"b": "*"}, "b": {"a": "*"}})
    done = pipeline.run("run", "--workspace", "npm", status=2)
    assert "the packages need each other: a needs b needs a" in done.err, done.err
    assert "--workspace must be npm" in pipeline.run("run", "--workspace", "yarn", status=2).err
    assert "--registry is for --workspace npm" in pipeline.run(
        "run", "--registry", "http://127.0.0.1:1", status=2).err
    assert not list(space.file("published").iterdir())


# ---- HTTP ----

def release_example(space):
    """examples/release.toml, twice: the second run finds everything published."""
    dist = space.file("dist")
    dist.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=dist)

        def log_message(self, *_):
            pass

    example = pathlib.Path(__file__).resolve().parents[2] / "examples/release.toml"
    file, before = _package(space)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        pipeline = Pipeline(space, example.read_text(encoding="utf-8"))
        pipeline.environment |= {"DIST": str(dist),
                                 "REGISTRY": f"http://127.0.0.1:{server.server_address[1]}"}
        done = pipeline.run("run")
        assert "4 done, 1 skipped" in done.out, done.out
        with tarfile.open(dist / "tool-2.0.0.tgz") as tar:
            inside = json.load(tar.extractfile("package.json"))
        assert inside["version"] == "2.0.0", inside
        _unchanged(file, before)
        published = (dist / "tool-2.0.0.tgz").stat()
        space.file("announcements").touch()
        pipeline.run("run")
        assert (dist / "tool-2.0.0.tgz").stat().st_ino == published.st_ino
        assert pipeline.text("announcements") == "tool 2.0.0 is out\n"
        server.shutdown()


@contextlib.contextmanager
def _server(answers):
    """Answers GET PATH with the next status of answers[PATH]; the last one stays."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            asked.append(self.path)
            left = answers[self.path]
            status = left.pop(0) if len(left) > 1 else left[0]
            if status == 0:
                self.close_connection = True
                return
            self.send_response(status)
            if status == 429:
                self.send_header("Retry-After", "0")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()


def http_checks_are_asked(space):
    with _server({"/when": [404], "/there": [200], "/new": [404], "/seen": [404, 404, 200],
                  "/busy": [429, 429, 200]}) as (url, asked):
        pipeline = Pipeline(space, f"""
[task.not_here]
when = {{ http = "{url}/when" }}
run = "echo not_here >>$HERE/ran"
[task.already]
done = {{ http = "{url}/there", status = 200 }}
run = "echo already >>$HERE/ran"
[task.busy]
done = {{ http = "{url}/busy" }}
run = "echo busy >>$HERE/ran"
[task.publish]
needs = ["not_here", "already", "busy"]
done = {{ http = "{url}/new" }}
run = "echo publish >>$HERE/ran"
verify = {{ http = "{url}/seen", every = "10ms", timeout = "20s" }}
""")
        done = pipeline.run("run")
        assert pipeline.text("ran") == "publish\n", (pipeline.text("ran"), done.out)
        assert "skipped  not_here" in done.out, done.out
        assert asked.count("/seen") == 3 and asked.count("/busy") == 3, asked


def http_check_without_an_answer_runs_nothing(space):
    """Nobody knows whether the work was done: a `no` would publish twice."""
    with _server({"/x": [500]}) as (url, _):
        pipeline = Pipeline(space, f"""
[task.publish]
done = {{ http = "{url}/x", timeout = "100ms" }}
run = "echo publish >>$HERE/ran"
""")
        done = pipeline.run("run", status=1)
        assert "`done` has no answer: " in done.out, done.out
        assert pipeline.text("ran") == ""


def http_verify_gives_up(space):
    with _server({"/x": [404]}) as (url, _):
        pipeline = Pipeline(space, f"""
[task.publish]
run = "true"
verify = {{ http = "{url}/x", timeout = "200ms", every = "10ms" }}
""")
        done = pipeline.run("run", status=1)
        assert "`verify` did not succeed in time" in done.out, done.out
        assert "answered 404" in done.out, done.out


def http_check_is_asked_before_each_attempt(space):
    """The first attempt does its work and reports a failure all the same."""
    with _server({"/x": [404, 200]}) as (url, _):
        pipeline = Pipeline(space, f"""
[task.publish]
done = {{ http = "{url}/x" }}
run = "echo publish >>$HERE/ran; exit 1"
retry = {{ max = 3, base = "1ms" }}
""")
        pipeline.run("run")
        assert pipeline.text("ran") == "publish\n"


def http_check_is_cancelled(space):
    """Ctrl-C does not wait for a server that never answers."""
    with _server({"/x": [404]}) as (url, asked):
        pipeline = Pipeline(space, f"""
[task.publish]
run = "true"
verify = {{ http = "{url}/x", timeout = "1h", every = "1h" }}
""")
        run = pipeline.start("run", "--json")
        wait_for("a question", lambda: asked)
        run.send_signal(signal.SIGINT)
        out, _ = run.communicate()
        assert run.returncode == 130, out
        assert json.loads(out.splitlines()[-1])["cancelled"] == 1, out


if __name__ == "__main__":
    main(globals())
