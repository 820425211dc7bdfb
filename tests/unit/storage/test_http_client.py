"""Responses put together from pieces of any size. What is cut off or no HTTP is an error, never half a response."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.storage.http_client import MAX_HEADERS, BrokenResponse, ResponseReader

BODY = b'{"a": "\r\n\r\n"}'
WHOLE = {
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\nX-A: 1\r\n\r\n" + BODY,
    "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\n"
    + BODY[:3]
    + b"\r\nA\r\n"
    + BODY[3:]
    + b"\r\n0\r\n\r\n",
    "trailers": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nd\r\n" + BODY + b"\r\n0\r\nx-sum: 1\r\n\r\n",
    "interim": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n" + BODY,
}
UNTIL_THE_END = b"HTTP/1.1 200 OK\r\n\r\n" + BODY


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % len(data) for cut in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(places)]


def read(data: bytes, cuts: list[int], method: str = "GET"):
    reader = ResponseReader(method)
    answers = [reader.feed(piece) for piece in pieces(data, cuts)]
    return [answer for answer in answers if answer is not None], reader


@given(st.sampled_from(sorted(WHOLE)), st.lists(st.integers(0, 400), max_size=8))
def test_a_response_is_the_same_however_it_is_cut(kind, cuts):
    [response], reader = read(WHOLE[kind], cuts)
    assert (response.status, response.body, reader.keeps_open) == (200, BODY, True)


@given(st.sampled_from(sorted(WHOLE)), st.integers(0, 400))
def test_a_response_that_breaks_off_is_none(kind, end):
    data = WHOLE[kind][: end % len(WHOLE[kind])]
    answers, reader = read(data or b"H", [])
    assert answers == []
    assert reader.end() is None


def test_a_body_without_a_length_ends_with_its_connection():
    answers, reader = read(UNTIL_THE_END, [30])
    assert answers == []
    assert reader.end().body == BODY
    assert not reader.keeps_open


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
def test_a_response_that_has_no_body_is_complete_without_one(method, status):
    [response], reader = read(b"HTTP/1.1 %d x\r\nContent-Length: 13\r\n\r\n" % status, [], method)
    assert (response.body, reader.keeps_open) == (b"", True)


@pytest.mark.parametrize("head", [b"HTTP/1.0 200 OK\r\n", b"HTTP/1.1 200 OK\r\nConnection: Close\r\n"])
def test_a_connection_that_the_server_closes_is_not_kept(head):
    _, reader = read(head + b"content-length: 0\r\n\r\n", [])
    assert not reader.keeps_open


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxy",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x" * MAX_HEADERS,
    ],
)
def test_what_is_no_response_is_refused(data):
    with pytest.raises(BrokenResponse):
        read(data, [])


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=4))
def test_arbitrary_bytes_give_a_response_or_one_kind_of_error(data, cuts):
    try:
        read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + data, cuts)
    except BrokenResponse:
        return
