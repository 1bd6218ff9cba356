#!/usr/bin/env python3
"""Servers that can't be used: each is one clear error, that says what is wrong, where, and what to
do. And servers that can: what `tenure doctor` says of them.

    server_test.py CASE PROGRAM
"""
import contextlib
import json
import os
import signal
import socket
import tempfile

import harness
from harness import finish, main
from servers import Certificates, Etcd, Pooler, Postgres, free_port

SECRET = "hush-hush"  # In every URL that has a password, and in nothing that is printed.


@contextlib.contextmanager
def running(*servers):
    try:
        yield servers[0] if len(servers) == 1 else servers
    finally:
        for server in servers:
            server.stop()


def doctor(space, url):
    status, out, error = space.do("doctor", "--json", "--space", url)
    assert (status, error) == (0, ""), (status, out, error)
    assert SECRET not in out, out
    return json.loads(out)


COMMANDS = (["doctor"], ["run", "book", "--", "touch", "was-run"], ["ls", "--json"])


def expect_error(space, url, *parts, where="127.0.0.1:", commands=COMMANDS):
    """By everything that opens a space, in a bounded time: `do` has a limit."""
    for words in commands:
        status, out, error = space.do(*words, environment={"TENURE_SPACE": url})
        assert (status, out) == (1, ""), (words, status, out, error)
        assert error.startswith("tenure: ") and error.count("\n") == 1, (words, error)
        assert SECRET not in error, error
        for part in (where, *parts):
            assert part in error, (part, error)
    assert not space.file("was-run").exists()


def expect_no_connection(space, url, *parts, **options):
    """Of etcd: gRPC tries until the time that the URL gives it is over, so one command will do."""
    expect_error(space, url, "can't be reached", *parts, commands=COMMANDS[:1], **options)


def expect_locks(space, url):
    """Two in line, and the second gets it."""
    space.environment["TENURE_SPACE"] = url
    space.file("space.db").touch()  # tickets() looks for it.
    holder = space.hold("book")
    second = space.start("run", "book", "--", "true")
    space.waiting(1)
    holder.communicate("\n", timeout=30)
    assert holder.returncode == 0
    assert finish(second)[0] == 0


# --- PostgreSQL


def postgres_works(space):
    with running(Postgres(space.file("server"),
                          access="host all all 127.0.0.1/32 scram-sha-256")) as server:
        server.sql(f"CREATE ROLE app LOGIN PASSWORD '{SECRET}'")
        server.sql("GRANT CREATE ON DATABASE postgres TO app")
        url = server.url(f"app:{SECRET}")
        report = doctor(space, url)
        assert report["facts"]["pooler"] == "no", report
        assert report["problems"] == [], report
        assert "fsync=off" in report["notes"][0], report
        expect_locks(space, url)


def postgres_errors(space):
    access = ("host all locked 127.0.0.1/32 scram-sha-256\n"
              "host all shut 127.0.0.1/32 reject\nhost all all 127.0.0.1/32 trust")
    with running(Postgres(space.file("server"), access=access)) as server:
        server.sql("CREATE ROLE locked LOGIN PASSWORD 'another'")
        server.sql("CREATE ROLE guest LOGIN")
        expect_error(space, f"postgres://admin:{SECRET}@127.0.0.1:{free_port()}/postgres",
                     "Connection refused", "Check the host and the port")
        expect_error(space, f"postgres://admin:{SECRET}@nowhere.invalid/postgres",
                     "could not translate host name", "Check the host name",
                     where="admin@nowhere.invalid/postgres")
        expect_error(space, server.url(f"locked:{SECRET}"), "password authentication failed",
                     "Check user and password")
        expect_error(space, server.url("locked"), "no password supplied", ".pgpass")
        expect_error(space, server.url("nobody"), 'role "nobody" does not exist', "CREATE ROLE")
        expect_error(space, server.url(database="nothing"), 'database "nothing" does not exist',
                     "CREATE DATABASE")
        expect_error(space, server.url("shut"), "pg_hba.conf")
        expect_error(space, server.url("guest"), "permission denied for database postgres",
                     'CREATE SCHEMA "tenure" AUTHORIZATION "guest"')
        doctor(space, server.url())  # Makes the schema, which is not the guest's.
        expect_error(space, server.url("guest"), "permission denied for schema tenure",
                     "USAGE on the schema", "SELECT, INSERT, UPDATE and DELETE")
        expect_error(space, server.url() + "&sslmode=require", "does not support SSL", "ssl=on")


def postgres_tls_errors(space):
    keys = Certificates(space.file("keys"))
    with running(Postgres(space.file("server"))) as server:
        def use(name):
            server.sql(f"ALTER SYSTEM SET ssl_cert_file='{server.own(keys.cert(name))}'")
            server.sql(f"ALTER SYSTEM SET ssl_key_file='{server.own(keys.key(name))}'")
            server.sql("ALTER SYSTEM SET ssl=on")
            server.restart()

        def url(authority):
            return server.url(more=f"&sslmode=verify-full&sslrootcert={keys.cert(authority)}")

        use("server")
        assert doctor(space, url("ca"))["facts"]["tls"].startswith("TLS")
        expect_error(space, url("stranger"), "certificate verify failed", "sslrootcert=")
        expect_error(space, server.url(more="&sslmode=verify-full"), "root.crt", "sslrootcert=")
        expect_error(space, url("ca").replace("127.0.0.1", "localhost"), "does not match host name",
                     "Connect to a host name that is in the server's certificate",
                     where="localhost:")
        use("expired")
        expect_error(space, url("ca"), "certificate verify failed", "has not expired")


def postgres_read_only(space):
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(running(Postgres(space.file("server"))))
        doctor(space, server.url())
        standby = stack.enter_context(running(Postgres(space.file("standby"), copy=server)))
        expect_error(space, standby.url(), "read-only", "name the primary")
        # Of several hosts, the one that takes writes is used.
        both = standby.url().replace("127.0.0.1", f"127.0.0.1:{server.port},127.0.0.1", 1)
        doctor(space, both)
        server.sql("CREATE ROLE reader LOGIN SUPERUSER")
        server.sql("ALTER ROLE reader SET default_transaction_read_only=on")
        expect_error(space, server.url("reader"), "read-only", "default_transaction_read_only")
        # Without what libpq checks for us, the first write finds out.
        expect_error(space, server.url("reader", "&target_session_attrs=any&tenure_schema=more"),
                     "read-only", "connect to the primary")


def postgres_pooler(space):
    with running(Postgres(space.file("server"))) as server:
        with running(Pooler(space.file("pooler"), server)) as pooler:
            report = doctor(space, pooler.url())
            assert report["facts"]["pooler"] == "yes", report
            assert "once a second" in report["facts"]["watch"], report
            assert any("pooler" in note for note in report["notes"]), report
            expect_locks(space, pooler.url())


# --- etcd


def etcd_works(space):
    with running(Etcd(space.file("server"))) as server:
        report = doctor(space, server.url())
        assert report["facts"]["kind"] == "etcd", report
        assert (report["problems"], report["notes"]) == ([], []), report
        expect_locks(space, server.url())


def etcd_errors(space):
    expect_error(space, f"etcd://app:{SECRET}@127.0.0.1:{free_port()}/p?timeout=2s",
                 "can't be reached", "refused", "check the host and the port")
    expect_no_connection(space, f"etcd://app:{SECRET}@nowhere.invalid/p?timeout=2s",
                         "check the host name", where="nowhere.invalid:2379")
    with running(Etcd(space.file("server"))) as server:
        expect_error(space, server.url(f"app:{SECRET}@"),
                     "the URL names a user, but authentication is off")
        expect_no_connection(space, server.url(scheme="etcds", timeout="2s"), "it may have no TLS")


def etcd_user_errors(space):
    with running(Etcd(space.file("server"))) as server:
        server.ctl("user", "add", "root:toor")
        server.ctl("user", "grant-role", "root", "root")
        for role, what, prefix in (("elsewhere", "readwrite", "other"),
                                   ("looking", "read", "locks"), ("locking", "readwrite", "locks")):
            server.ctl("role", "add", role)
            server.ctl("role", "grant-permission", role, "--prefix=true", what, prefix)
            server.ctl("user", "add", f"{role}:{SECRET}")
            server.ctl("user", "grant-role", role, role)
        server.ctl("user", "add", f"bare:{SECRET}")
        server.ctl("auth", "enable")
        report = doctor(space, server.url(f"locking:{SECRET}@"))
        assert report["facts"]["user"] == "locking", report
        expect_error(space, server.url(), "without a user", "check user and password")
        expect_error(space, server.url(f"locking:{SECRET}x@"), "'locking'",
                     "check user and password")
        expect_error(space, server.url(f"nobody:{SECRET}@"), "'nobody'", "check user and password")
        for who in ("elsewhere", "bare"):
            expect_error(space, server.url(f"{who}:{SECRET}@"), f"'{who}' may not read and write",
                         "grant-permission ROLE --prefix=true readwrite locks")
        # It may look; what it may not is in the doctor's report.
        reader = server.url(f"looking:{SECRET}@")
        status, out, error = space.do("doctor", "--space", reader)
        assert (status, error) == (1, ""), (status, out, error)
        assert "problem: " in out and "'looking' may not read and write" in out, out
        assert SECRET not in out, out


def etcd_tls_errors(space):
    keys = Certificates(space.file("keys"))

    def url(server, authority, timeout="2s"):
        return server.url(more=f"&ca={keys.cert(authority)}", scheme="etcds", timeout=timeout)

    def start(name):
        return running(Etcd(space.file(name), tls=(keys.cert(name), keys.key(name))))

    with start("server") as server:
        assert doctor(space, url(server, "ca", "10s"))["facts"]["tls"] == "yes"
        expect_no_connection(space, url(server, "stranger"), "certificate is not trusted", "ca=")
        expect_no_connection(space, server.url(scheme="etcds", timeout="2s"),
                             "certificate is not trusted", "ca=")
        expect_error(space, server.url(more="&ca=/nowhere", scheme="etcds"), "/nowhere",
                     "check the path", where="etcd")
        expect_no_connection(space, server.url(timeout="2s"), "it may require TLS (use etcds://)")
    with start("expired") as old:
        expect_no_connection(space, url(old, "ca"), "certificate is not trusted", "has not expired")


def etcd_large_tokens(space):
    """Numbers follow the time: from 2038 on they are above 2^63."""
    with running(Etcd(space.file("server"))) as server:
        doctor(space, server.url())
        # The head of the path /, which all later numbers are above.
        server.put(b"locks\0h\0\0", (2**63).to_bytes(8, "big") + bytes(8) + b"\3")
        space.environment["TENURE_SPACE"] = server.url()
        space.file("space.db").touch()  # tickets() looks for it.
        holder = space.hold("book")
        token = space.tickets()[0]["token"]
        assert isinstance(token, str) and 2**63 < int(token) < 2**64, token
        for words in (["show", "book"], ["tree"], ["ls"]):
            status, out, error = space.do(*words)
            assert (status, error) == (0, ""), (words, status, out, error)
        status, out, error = space.do("evict", "--json", "--now", token)
        assert (status, error) == (0, ""), (status, out, error)
        assert json.loads(out) == {"token": token, "evicted": True}, out
        assert space.tickets() == []
        assert finish(holder)[0] == 74, "the lock was lost"


def silent_server(space):
    """Ctrl-C ends a program that waits for a server: it has ten minutes to answer."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        for url in (f"etcd://127.0.0.1:{port}/p?timeout=600s",
                    f"postgres://127.0.0.1:{port}/p?connect_timeout=600"):
            for words in (["run", "book", "--", "true"], ["watch"], ["ls"], ["doctor"]):
                client = space.start(*words, environment={"TENURE_SPACE": url})
                with listening.accept()[0]:
                    client.send_signal(signal.SIGINT)
                    assert finish(client)[0] == -signal.SIGINT, (words, url)


def etcd_full(space):
    """Out of room, it takes no writes until somebody makes some."""
    with running(Etcd(space.file("server"), "--quota-backend-bytes=1")) as server:
        remedy = ("its database is full", "compact", "alarm disarm")
        expect_error(space, server.url(), *remedy, commands=COMMANDS[1:])
        # It can still be read: doctor says what it knows, and what is wrong.
        status, out, error = space.do("doctor", environment={"TENURE_SPACE": server.url()})
        assert (status, error) == (1, ""), (status, out, error)
        assert all(part in out for part in ("problem: ", *remedy)), out


if __name__ == "__main__":
    # Servers are slow to start on a busy disk, and power loss is not what is tried here.
    harness.LIMIT = 240
    if os.access("/dev/shm", os.W_OK):
        tempfile.tempdir = "/dev/shm"
    main(globals())
