"""A server whose answers are bytes that each test writes."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import repeat

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\ncontent-length: 2\r\n\r\n{}"


class Server:
    """Answers requests with the given bytes, one after the other; after `None` it closes the connection."""

    def __init__(self, ending: bytes = b"{}") -> None:
        """`ending`: the bytes with which every request ends."""
        self._ending = ending
        self.answers: Iterator[bytes | None] = repeat(PLAIN)
        self.requests: list[bytes] = []
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):  # the listener was closed
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while request := _request(connection, self._ending):
                answer = next(self.answers)
                self.requests.append(request)
                if answer is None:
                    return
                connection.sendall(answer)


def _request(connection: socket.socket, ending: bytes) -> bytes:
    got = b""
    while not got.endswith(ending):
        if not (more := connection.recv(65_536)):
            return b""
        got += more
    return got
