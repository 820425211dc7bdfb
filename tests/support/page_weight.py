"""What a first visit to a page costs: the page and every file it names, compressed as they are sent."""

import gzip
import re

from tests.support.route_calls import call


async def weight_of(env, path: str, cookies=()) -> int:
    route, _, _ = path.partition("?")
    page = await call(env, f"GET {route}", path, cookies=cookies)
    names = set(re.findall(r'"/assets/([^"]+)"', page.text))
    assets = [await call(env, "GET /assets/{name}", f"/assets/{name}", name=name) for name in names]
    return sum(len(gzip.compress(answer.text.encode(), 5)) for answer in [page, *assets])
