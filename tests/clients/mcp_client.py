"""A client of MCP with the Skills extension; prints what it got as one line of JSON. Run by the Python of fastmcp."""

import asyncio
import base64
import json
import sys

from fastmcp import Client
from fastmcp.skills.client import SkillsClientExtension
from mcp.shared.exceptions import MCPError


async def main(url: str, uri: str) -> None:
    async with Client(url, extensions=[SkillsClientExtension()]) as client:
        listed = await client.list_skills()
        tools = await client.list_tools()
        found = await client.call_tool("search_skills", {"query": "yaml"})
        print(
            json.dumps(
                {
                    "listed": {skill.uri: skill.frontmatter.root for skill in listed},
                    "tools": [tool.name for tool in tools],
                    "found": found.structured_content["skills"],
                    **await read(client, uri),
                }
            )
        )


async def read(client: Client, uri: str) -> dict:
    try:
        skill = await client.get_skill(uri)
    except MCPError as error:
        return {"refused": str(error)}
    contents = {each.uri: (await client.read_resource(each.uri))[0] for each in skill.resources}
    return {
        "digests": {each.uri: each.digest for each in skill.resources},
        "files": {each: base64.b64encode(_bytes(content)).decode() for each, content in contents.items()},
    }


def _bytes(content) -> bytes:
    return content.text.encode() if hasattr(content, "text") else base64.b64decode(content.blob)


asyncio.run(main(*sys.argv[1:]))
