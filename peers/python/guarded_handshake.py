"""A guarded server of the handshake era, on the official Python SDK v1.

guarded_handshake.py <issuer>
"""

from mcp.server.fastmcp import FastMCP

import guard

server = FastMCP("python-guarded-handshake", log_level="WARNING", auth=guard.SETTINGS, token_verifier=guard.Verifier())
server.tool(structured_output=False)(guard.read)
guard.serve(server.streamable_http_app())
