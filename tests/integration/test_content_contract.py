"""What every content store must do: the same suite on the in-memory fake and on implementations of S3."""

import asyncio
import gc
import os
import uuid
from functools import partial

import pytest
from botocore.exceptions import ClientError
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.errors import NotFound, Unavailable
from shared.settings import load_settings
from shared.storage.aws import Aws
from shared.storage.aws_sdk import AwsSdk
from shared.storage.content import S3Content, content_hash_of, pack, unpack
from tests.support.aws_resources import client, create_resources
from tests.support.memory import MemoryContent

FILES = {"SKILL.md": b"# Hello\r\n", "scripts/run.py": b"print()\n", "empty": b"", "\u00e4/\U0001f600.md": b"\xff\x00"}
PARTS = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="/\\"), min_size=1, max_size=60)
PATHS = st.lists(PARTS.filter(lambda part: part not in (".", "..")), min_size=1, max_size=4).map("/".join)


@pytest.fixture(params=["memory", "moto", "moto by the SDK", "store", "store by the SDK"])
async def content(request):
    if request.param == "memory":
        yield MemoryContent()
        return
    load = load_settings(create_resources(request.getfixturevalue(f"{request.param.split()[0]}_url")))
    aws = AwsSdk(load) if request.param.endswith("SDK") else Aws(load)
    yield S3Content(partial(aws.call, "s3"), load.bucket_name)
    await aws.close()


async def test_files_are_read_as_they_were_put(content):
    content_hash = await content.put_files(FILES)
    assert content_hash == content_hash_of(FILES)
    assert await content.get_files(content_hash) == FILES


async def test_putting_the_same_files_again_changes_nothing(content):
    first = await content.put_files(FILES)
    assert await content.put_files(dict(reversed(FILES.items()))) == first
    assert await content.get_files(first) == FILES


async def test_what_a_reader_does_with_the_files_is_no_matter_to_the_next(content):
    content_hash = await content.put_files(FILES)
    (await content.get_files(content_hash)).clear()
    assert await content.get_files(content_hash) == FILES


async def test_what_is_not_stored_is_not_found(content):
    with pytest.raises(NotFound):
        await content.get_files("0" * 64)


async def test_a_body_is_stored_under_its_key_and_a_newer_one_replaces_it(content):
    await content.put_body("dead-letters/m1", b"\xffbody")
    assert await content.get_body("dead-letters/m1") == b"\xffbody"
    await content.put_body("dead-letters/m1", b"another")
    await content.put_body("dead-letters/m2", b"of m2")
    assert await content.get_body("dead-letters/m1") == b"another"
    with pytest.raises(NotFound):
        await content.get_body("dead-letters/m3")


async def test_parallel_puts_and_gets_do_not_mix(content):
    sets = [{"SKILL.md": str(n).encode()} for n in range(6)]
    hashes = await asyncio.gather(*map(content.put_files, sets))
    assert await asyncio.gather(*map(content.get_files, hashes)) == sets


async def test_a_store_that_is_up_says_so(content):
    assert await content.check() is None


def test_the_bucket_holds_one_archive_per_content(moto_url):
    env = load_settings(create_resources(moto_url))

    async def put():
        aws = Aws(env)
        content = S3Content(partial(aws.call, "s3"), env.bucket_name)
        content_hash = await content.put_files(FILES)
        await content.put_files(FILES)
        await content.keep_files(FILES)
        await aws.close()
        return content_hash

    content_hash = asyncio.run(put())
    listed = client("s3", moto_url).list_objects_v2(Bucket=env.bucket_name)["Contents"]
    assert [item["Key"] for item in listed] == [f"content/{content_hash}", f"received/{content_hash}"]


async def test_files_that_are_kept_stay_when_what_was_submitted_expires(moto_url):
    env = load_settings(create_resources(moto_url))
    aws, bucket = Aws(env), client("s3", moto_url)
    content = S3Content(partial(aws.call, "s3"), env.bucket_name)
    kept = await content.put_files(FILES)
    await content.keep_files(FILES)
    await content.put_files(FILES)  # submitted again, and rejected this time
    rejected = await content.put_files({"SKILL.md": b"other"})
    for item in bucket.list_objects_v2(Bucket=env.bucket_name, Prefix="received/")["Contents"]:
        bucket.delete_object(Bucket=env.bucket_name, Key=item["Key"])
    assert await content.get_files(kept) == FILES
    with pytest.raises(NotFound):
        await content.get_files(rejected)
    await aws.close()


@pytest.mark.parametrize(("refused", "error"), [(["content/"], None), (["content/", "received/"], Unavailable)])
async def test_what_a_function_is_refused_may_be_missing_and_is_looked_for_among_what_was_submitted(refused, error):
    """Without the right to list a bucket, S3 refuses what it does not have."""
    stored = pack(FILES)

    async def wire(operation, params):
        if params["Key"].startswith(tuple(refused)):
            raise ClientError({"Error": {"Code": "AccessDenied"}}, operation)
        return {"Body": stored}

    content = S3Content(wire, "b")
    if error is None:
        assert await content.get_files("0" * 64) == FILES
    else:
        with pytest.raises(error):
            await content.get_files("0" * 64)


async def unreachable(endpoint_url, bucket, operation):
    settings_ = load_settings(_environment(endpoint_url, bucket))
    aws = Aws(settings_)
    try:
        await operation(S3Content(partial(aws.call, "s3"), settings_.bucket_name))
    finally:
        await aws.close()


OPERATIONS = [lambda content: content.get_files("0" * 64), lambda content: content.check()]


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_bucket_that_does_not_answer_is_unavailable_not_empty(operation, closed_port):
    with pytest.raises(Unavailable):
        await unreachable(closed_port, "b", operation)


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_bucket_that_is_not_there_is_unavailable_not_empty(operation, moto_url):
    with pytest.raises(Unavailable):
        await unreachable(moto_url, f"none{uuid.uuid4().hex}", operation)


async def test_an_answer_that_breaks_off_is_unavailable_not_half_a_skill():
    async def half(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + pack(FILES)[:50])
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(half, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(Unavailable):
            await unreachable(url, "b", lambda content: content.get_files("0" * 64))
        gc.collect()  # a connection that was not given back would warn here, and a warning is an error


def test_the_content_hash_is_of_sorted_lines_of_hash_size_and_path():
    # Written down once: a change of the rule would orphan all that is stored.
    assert content_hash_of({"SKILL.md": b"hello"}) == "80ed717354a06d904e2663648bb16c583e708544bb75296299958876a4768567"
    assert content_hash_of({"a": b"1", "b": b"2"}) != content_hash_of({"a": b"2", "b": b"1"})
    assert content_hash_of({"a": b"1\r\n"}) != content_hash_of({"a": b"1\n"})


@settings(deadline=None, max_examples=25)
@given(st.dictionaries(PATHS, st.binary(max_size=200), max_size=8))
def test_packing_is_deterministic_and_loses_nothing(files):
    assert unpack(pack(files)) == files
    assert pack(dict(reversed(files.items()))) == pack(files)
    assert pack(files)[4:8] == bytes(4)  # no time of packing in it


def _environment(endpoint_url, bucket):
    names = ("TABLE_NAME", "QUEUE_URL", "SECRET_ID")
    return {
        **dict.fromkeys(names, "none"),
        "STAGE": "local",
        "ALLOW_UPLOADS": "true",
        "MAX_ACTIVE": "1",
        "AWS_REGION": os.environ["AWS_REGION"],
        "BUCKET_NAME": bucket,
        "AWS_ENDPOINT_URL": endpoint_url,
    }
