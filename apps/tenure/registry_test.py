#!/usr/bin/env python3
"""`tenure pipeline --workspace npm` with a real registry (verdaccio) on the loopback."""
import fcntl
import io
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tarfile
import time
import urllib.error
import urllib.request

import harness
import servers
from harness import main, wait_for
from pipelines import Pipeline

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = 30
KILLS = int(os.environ.get("TENURE_REGISTRY_KILLS", "3"))  # make torture: more.

CONFIGURATION = """
storage: {storage}
auth: {{ htpasswd: {{ file: {storage}/htpasswd }} }}
packages: {{ '**': {{ access: $all, publish: $all }} }}
log: {{ type: stdout, format: pretty, level: warn }}
web: {{ enable: false }}
"""


def _install():
    """Once per build directory, as the lock file says; tests of several trees share it."""
    to = SOURCE / "build/registry"
    to.mkdir(parents=True, exist_ok=True)
    with open(to / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = (SOURCE / "tests/registry/package-lock.json").read_bytes()
        done = to / "installed"
        if not done.exists() or done.read_bytes() != wanted:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(SOURCE / "tests/registry" / name, to)
            subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=to,
                           check=True, stdout=subprocess.DEVNULL)
            done.write_bytes(wanted)
    return to / "node_modules/verdaccio/bin/verdaccio"


class Registry:
    def __init__(self, space):
        program = _install()
        directory = space.file("registry")
        directory.mkdir()
        self.storage = directory / "storage"
        configuration = directory / "config.yaml"
        configuration.write_text(CONFIGURATION.format(storage=self.storage), encoding="utf-8")
        self.port = servers.free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.server = servers.Process(
            ["node", program, "--config", configuration, "--listen", f"127.0.0.1:{self.port}"],
            directory)
        self.server.wait_ready(self._answers)
        # npm wants a token for every registry that it publishes to; this one accepts anybody's.
        space.file(".npmrc").write_text(f"//127.0.0.1:{self.port}/:_authToken=anybody\n"
                                        "update-notifier=false\n", encoding="utf-8")

    def _answers(self):
        try:
            with urllib.request.urlopen(f"{self.url}/-/ping", timeout=5):
                return True
        except OSError:
            return False

    def get(self, path):
        with urllib.request.urlopen(f"{self.url}/{path}", timeout=harness.LIMIT) as answer:
            return answer.read()

    def published(self):
        return len(list(self.storage.glob("**/*.tgz")))


def _name(number):
    return f"@scope/p{number}" if number % 5 == 0 else f"p{number}"


def _needs(number):
    """What package.json says, and what has to be published instead."""
    ranges = [("workspace:*", "1.0.0"), ("workspace:^", "^1.0.0"), ("workspace:~", "~1.0.0"),
              ("^1.0.0", "^1.0.0"), ("*", "1.0.0")]
    others = sorted({number // 2, number // 3} - {number})
    return {_name(other): ranges[(number + other) % len(ranges)] for other in others}


def _workspace(space, kind):
    root = space.file("workspace")
    root.mkdir()
    about = {"name": "root", "private": True}
    if kind == "pnpm":
        (root / "pnpm-workspace.yaml").write_text("packages:\n  - 'packages/*'\n")
    else:
        about["workspaces"] = ["packages/*"]
    (root / "package.json").write_text(json.dumps(about))
    for number in range(PACKAGES):
        package = root / "packages" / f"p{number}"
        package.mkdir(parents=True)
        text = json.dumps({"name": _name(number), "version": "1.0.0",
                           "dependencies": {key: one for key, (one, _) in _needs(number).items()}},
                          indent=number % 4)
        # As somebody's editor left it: all of this has to come back.
        (package / "package.json").write_text(text.replace(":", " :\t", 1) + "\n" * (number % 3))
        (package / "index.js").write_text(f"module.exports = {number};\n")
    return root


def _files(root):
    found = {}
    for path in sorted(root.glob("**/*")):
        status = path.stat()
        found[str(path.relative_to(root))] = (
            path.read_bytes() if path.is_file() else None,
            status.st_ino, status.st_mode, status.st_mtime_ns if path.is_file() else 0)
    return found


def _check_published(registry):
    for number in range(PACKAGES):
        name = _name(number)
        about = json.loads(registry.get(name.replace("/", "%2f")))
        assert list(about["versions"]) == ["1.0.0"], about["versions"].keys()
        wanted = {key: pinned for key, (_, pinned) in _needs(number).items()}
        version = about["versions"]["1.0.0"]
        assert version.get("dependencies", {}) == wanted, (name, version)
        tarball = registry.get(version["dist"]["tarball"].removeprefix(registry.url + "/"))
        with tarfile.open(fileobj=io.BytesIO(tarball)) as tar:
            assert sorted(tar.getnames()) == ["package/index.js", "package/package.json"]
            inside = json.load(tar.extractfile("package/package.json"))
        assert inside.get("dependencies", {}) == wanted, (name, inside)


class Publishing(Pipeline):
    """The pipeline of a workspace instead of that of a manifest."""

    def __init__(self, space, registry, kind):
        super().__init__(space, "")
        self.file = _workspace(space, kind)
        self.options = ["--workspace", "npm", "--registry", registry.url]

    def start(self, action, *options):
        return super().start(action, *self.options, *options)


def registry_survives_kills(space):
    """SIGKILL at random points of publishing 30 packages, and resume."""
    signal.alarm(0)  # As long as ctest says: npm takes its time,
    harness.LIMIT = 600  # for each package.
    seed = int(os.environ.get("TENURE_SEED", str(random.randrange(1_000_000))))
    print("TENURE_SEED", seed)
    randomness = random.Random(seed)
    registry = Registry(space)
    pipeline = Publishing(space, registry, randomness.choice(["npm", "pnpm"]))
    before = _files(pipeline.file)
    action = "run"
    for wanted in sorted(randomness.sample(range(PACKAGES - 1), KILLS)):
        run = pipeline.start(action)
        wait_for(f"{wanted} packages", lambda: registry.published() >= wanted)
        time.sleep(randomness.random() * 0.4)
        assert run.poll() is None, run.communicate()
        run.kill()
        _, error = run.communicate()
        if list((pipeline.directory / "state/tenure").glob("pipelines/*/state.db")):
            action = "resume"
        assert "rror" not in error, error
    pipeline.run(action)
    _check_published(registry)
    assert _files(pipeline.file) == before
    assert registry.published() == PACKAGES
    assert "nothing to resume" in pipeline.run("resume").out
    # A new run asks the registry, and publishes nothing.
    again = json.loads(pipeline.run("run", "--json").out.splitlines()[-1])
    assert again["done"] == PACKAGES, again


SECURE_SERVER = """
const http2 = require("http2"), fs = require("fs");
const [key, cert, port] = process.argv.slice(1);
const settings = { key: fs.readFileSync(key), cert: fs.readFileSync(cert), allowHTTP1: true };
http2.createSecureServer(settings, (request, response) => {
  console.log(request.httpVersion);
  response.end();
}).listen(Number(port), "127.0.0.1", () => console.log("ready"));
"""


def https_checks_are_asked_by_http2(space):
    made = servers.Certificates(space.file("certificates"))
    port = servers.free_port()
    server = servers.Process(["node", "-e", SECURE_SERVER, made.key("server"), made.cert("server"),
                              str(port)], space.directory)
    server.wait_ready(lambda: "ready" in server.log.read_text())
    pipeline = Pipeline(space, f"""
[task.a]
run = "echo ran >>$HERE/ran"
verify = {{ http = "https://127.0.0.1:{port}/" }}
[task.b]
run = "echo ran >>$HERE/ran"
done = {{ http = "https://127.0.0.1:{port}/" }}
""")
    # Somebody whom this machine does not trust.
    done = pipeline.run("run", "--only", "b", status=1)
    assert "certificate" in done.out and pipeline.text("ran") == "", (done.out, done.err)
    for variable in ("CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        pipeline.environment[variable] = str(made.cert("ca"))
        pipeline.run("run")
        del pipeline.environment[variable]
    assert pipeline.text("ran") == "ran\n" * 2
    assert server.log.read_text().split() == ["ready"] + ["2.0"] * 4, server.log.read_text()


if __name__ == "__main__":
    main(globals())
