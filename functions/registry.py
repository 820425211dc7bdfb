"""What programs that install skills ask: `skills`, Claude Code, npm, clawhub, MCP. It writes nothing but counts."""

from functions.clients import artifacts, clawhub, marketplace, mcp, npm, skills_cli
from functions.http.routes import Route, http_handler

ROUTES: dict[str, Route] = {
    **skills_cli.ROUTES,
    **artifacts.ROUTES,
    **marketplace.ROUTES,
    **npm.ROUTES,
    **clawhub.ROUTES,
    **mcp.ROUTES,
}
handler = http_handler(ROUTES)
