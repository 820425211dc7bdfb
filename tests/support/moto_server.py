"""moto in its server form, on a free port, with one lock around DynamoDB: bare, it is not atomic under threads.

In a process of its own: beside the tests it would share their interpreter lock and be traced with them."""

import copy
import functools
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextmanager
def moto_server() -> Iterator[str]:
    command = [sys.executable, "-m", "tests.support.moto_server"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        url = server.stdout.readline().strip()
        assert url, "moto did not start: see above"
        yield url
        server.stdin.close()  # it ends with its input, also when the tests are killed
        server.wait(timeout=30)


def main() -> None:
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    _undo_transactions_item_by_item()
    _look_things_up_once()
    app = _one_at_a_time(DomainDispatcherApplication(create_backend_app))
    WSGIRequestHandler.protocol_version = "HTTP/1.1"  # keeps connections: a new one takes as long as a small request
    WSGIRequestHandler.disable_nagle_algorithm = True  # or head and body of an answer come 40 ms apart
    server = make_server("127.0.0.1", 0, app, threaded=True)
    server.daemon_threads = True  # an SQS long poll must not hold up the end of the tests
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    sys.stdin.read()
    os._exit(0)  # nothing is kept, and to take thousands of tables apart takes seconds


def _one_at_a_time(app):
    lock = threading.Lock()

    def locked(environ, start_response):
        # Only DynamoDB: SQS waits inside its handler for a message to come, and would lock out who sends it.
        if not environ.get("HTTP_X_AMZ_TARGET", "").startswith("DynamoDB_"):
            return app(environ, start_response)
        with lock:
            return list(app(environ, start_response))

    return locked


def _undo_transactions_item_by_item():
    """For each item of a transaction, moto copies the whole table. Here it keeps those items, and copies no table."""
    from moto.dynamodb.models import DynamoDBBackend
    from moto.dynamodb.models.table import Table

    transact = DynamoDBBackend.transact_write_items

    def transact_write_items(backend, transact_items):
        before = [_kept(backend, operation) for item in transact_items for operation in item.values()]
        try:
            transact(backend, transact_items)
        except Exception:
            for rows, range_key, kept in before:
                rows.pop(range_key, None)
                rows.update({range_key: kept} if kept else {})
            raise

    DynamoDBBackend.transact_write_items = transact_write_items
    Table.__deepcopy__ = lambda table, memo: table


def _look_things_up_once():
    """For each request, moto lists its own folders and methods, and compares keys in several steps."""
    from moto import backends
    from moto.core import responses
    from moto.dynamodb.models.table import Table

    modules = frozenset(backends.list_of_moto_modules())
    backends.list_of_moto_modules = lambda: modules
    responses.method_names_from_class = functools.cache(responses.method_names_from_class)
    Table.all_items = lambda table: [
        item
        for _, rows in sorted(table.items.items(), key=lambda pair: pair[0].value)
        for _, item in sorted(rows.items(), key=lambda pair: pair[0].value)
    ]


def _kept(backend, operation):
    """The rows that have the item, its place among them, and the item as it is now."""
    table = backend.get_table(operation["TableName"])
    hash_key, range_key = backend.get_keys_value(table, operation.get("Key") or operation["Item"])
    rows = table.items[hash_key]
    return rows, range_key, copy.deepcopy(rows.get(range_key))


if __name__ == "__main__":
    main()
