"""Servers that tests of the program start for themselves, on free ports of the loopback:
PostgreSQL, etcd and PgBouncer, with keys and certificates where they need some. All end with the
test.
"""
import base64
import contextlib
import ctypes
import json
import os
import pathlib
import pwd
import random
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

import harness

PR_SET_PDEATHSIG = 1


def free_port():
    """Below those that the kernel gives to connections: one of these may soon be somebody's."""
    while True:
        port = random.randrange(12_000, 32_000)
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def own_user():
    """PostgreSQL and PgBouncer do not run as root: who they run as then, or None."""
    return pwd.getpwnam("postgres") if os.geteuid() == 0 else None


def command(*words, **options):
    done = subprocess.run(words, capture_output=True, text=True, timeout=harness.LIMIT, **options)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


class Process:
    """A server that runs until the test is over, however that ends."""

    def __init__(self, words, directory, user=None, environment=()):
        self.log = pathlib.Path(directory) / "log"
        libc = ctypes.CDLL(None)  # Loaded before the fork.

        def prepare():
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

        identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                list(map(str, words)), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                preexec_fn=prepare, env={**os.environ, **dict(environment)}, **identity)

    def wait_ready(self, ready):
        end = time.monotonic() + harness.LIMIT
        while not ready():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.02)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=10)
        self.process.kill()
        self.process.wait()


class Certificates:
    """An authority that everybody here trusts, one that nobody does, and what they signed."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir()
        self._authority("ca")
        self._authority("stranger")
        self._make("server", "20200101000000Z", "20991231235959Z")
        self._make("expired", "20200101000000Z", "20200102000000Z")

    def cert(self, name):
        return self.directory / f"{name}.crt"

    def key(self, name):
        return self.directory / f"{name}.key"

    def _new_key(self, name):
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                str(self.key(name)), "-subj", f"/CN={name}"]

    def _authority(self, name):
        command("openssl", "req", "-x509", "-days", "3650", *self._new_key(name), "-out",
                str(self.cert(name)))

    def _make(self, name, begin, end):
        """By `openssl ca`, since nothing else makes one that has expired."""
        request = self.directory / f"{name}.csr"
        command("openssl", "req", *self._new_key(name), "-out", str(request))
        settings = self.directory / "ca.cnf"
        (self.directory / "index").touch()
        settings.write_text(
            f"[ca]\ndefault_ca=d\n[d]\ndatabase={self.directory}/index\n"
            f"new_certs_dir={self.directory}\nrand_serial=yes\ndefault_md=sha256\npolicy=p\n"
            "unique_subject=no\nx509_extensions=x\n[p]\ncommonName=supplied\n"
            "[x]\nsubjectAltName=IP:127.0.0.1\n")
        command("openssl", "ca", "-batch", "-config", str(settings), "-in", str(request), "-out",
                str(self.cert(name)), "-notext", "-cert", str(self.cert("ca")), "-keyfile",
                str(self.key("ca")), "-startdate", begin, "-enddate", end)


class Postgres:
    def __init__(self, directory, settings=(), access="host all all 127.0.0.1/32 trust", copy=None):
        """`copy`: a server that this one is a standby of."""
        self.directory = pathlib.Path(directory)
        self.directory.mkdir()
        self.user = own_user()
        if self.user:
            os.chmod(self.directory.parent, 0o755)
            os.chown(self.directory, self.user.pw_uid, self.user.pw_gid)
        self.programs = max(pathlib.Path("/usr/lib/postgresql").iterdir()) / "bin"
        self.port = free_port()
        self.data = self.directory / "data"
        if copy is None:
            self._run("initdb", "-D", self.data, "-U", "admin", "-A", "trust", "-E", "UTF8",
                      "--no-locale", "--no-sync")
            (self.data / "pg_hba.conf").write_text(
                f"local all all trust\n{access}\nhost replication admin 127.0.0.1/32 trust\n")
        else:
            self._run("pg_basebackup", "-D", self.data, "-R", "-d",
                      f"postgres://admin@127.0.0.1:{copy.port}/", "--no-sync", "--checkpoint=fast")
        with open(self.data / "postgresql.conf", "a") as file:
            file.write(f"\nlisten_addresses='127.0.0.1'\nport={self.port}\nfsync=off\n"
                       f"unix_socket_directories='{self.directory}'\n" + "\n".join(settings) + "\n")
        self.start()

    def start(self):
        self.server = Process([self.programs / "postgres", "-D", self.data], self.directory,
                              self.user)
        self.server.wait_ready(self._answers)

    def restart(self):
        self.stop()
        self.start()

    def _run(self, program, *words):
        identity = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} \
            if self.user else {}
        command(str(self.programs / program), *map(str, words), cwd="/", **identity)

    def _answers(self):
        return subprocess.run([self.programs / "pg_isready", "-q", "-h", self.directory, "-p",
                               str(self.port)], check=False).returncode == 0

    def own(self, file):
        """A key that the server's user can read, and nobody else."""
        mine = self.directory / file.name
        shutil.copy(file, mine)
        mine.chmod(0o600)
        if self.user:
            os.chown(mine, self.user.pw_uid, self.user.pw_gid)
        return mine

    def sql(self, text):
        return command("psql", "-X", "-q", "-h", str(self.directory), "-p", str(self.port), "-U",
                       "admin", "-d", "postgres", "-Atc", text)

    def url(self, who="admin", more="", database="postgres"):
        return f"postgres://{who}@127.0.0.1:{self.port}/{database}?gssencmode=disable{more}"

    def stop(self):
        self.server.stop()


class Etcd:
    def __init__(self, directory, *words, tls=None):
        """`tls`: certificate and key."""
        self.directory = pathlib.Path(directory)
        self.directory.mkdir()
        self.port = free_port()
        peer = f"http://127.0.0.1:{free_port()}"
        scheme = "https" if tls else "http"
        at = f"{scheme}://127.0.0.1:{self.port}"
        secret = [f"--cert-file={tls[0]}", f"--key-file={tls[1]}"] if tls else []
        self.server = Process(
            ["etcd", "--name=one", f"--data-dir={self.directory}/data", "--logger=zap",
             f"--listen-client-urls={at}", f"--advertise-client-urls={at}",
             f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
             f"--initial-cluster=one={peer}", *secret, *words], self.directory)
        self.server.wait_ready(self._answers)

    def _answers(self):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", self.port)) != 0:
                return False
        return "serving client traffic" in self.server.log.read_text()

    def ctl(self, *words):
        return command("etcdctl", f"--endpoints=127.0.0.1:{self.port}", *words,
                       env={**os.environ, "ETCDCTL_API": "3"})

    def put(self, key, value):
        """Of any bytes, which a command line can't have."""
        body = json.dumps({"key": base64.b64encode(key).decode(),
                           "value": base64.b64encode(value).decode()})
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v3/kv/put", body.encode()):
            pass

    def url(self, who="", more="", scheme="etcd", timeout="10s"):
        return f"{scheme}://{who}127.0.0.1:{self.port}/locks?timeout={timeout}{more}"

    def stop(self):
        self.server.stop()


class Pooler:
    """PgBouncer in front of a server; a backend is a client's for one transaction."""

    def __init__(self, directory, server):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir()
        self.port = free_port()
        settings = self.directory / "pgbouncer.ini"
        settings.write_text(
            f"[databases]\n* = host=127.0.0.1 port={server.port} user=admin\n[pgbouncer]\n"
            f"listen_addr=127.0.0.1\nlisten_port={self.port}\nunix_socket_dir=\nauth_type=any\n"
            "pool_mode=transaction\ndefault_pool_size=3\n")
        program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
        self.server = Process([program, "-q", settings], self.directory, own_user())
        self.server.wait_ready(self._answers)

    def _answers(self):
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0

    def url(self):
        return f"postgres://admin@127.0.0.1:{self.port}/postgres?sslmode=disable&gssencmode=disable"

    def stop(self):
        self.server.stop()
