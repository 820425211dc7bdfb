"""moto in its server form, on a free port, with one lock around DynamoDB: bare, it is not atomic under threads."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server


@contextmanager
def moto_server() -> Iterator[str]:
    app = _one_at_a_time(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True)
    server.daemon_threads = True  # an SQS long poll must not hold up the end of the tests
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _one_at_a_time(app):
    lock = threading.Lock()

    def locked(environ, start_response):
        # Only DynamoDB: SQS waits inside its handler for a message to come, and would lock out who sends it.
        if not environ.get("HTTP_X_AMZ_TARGET", "").startswith("DynamoDB_"):
            return app(environ, start_response)
        with lock:
            return list(app(environ, start_response))

    return locked
