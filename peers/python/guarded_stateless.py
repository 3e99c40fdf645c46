"""A guarded server of the stateless era, on the official Python SDK v2.

guarded_stateless.py <issuer>
"""

from mcp.server.mcpserver import MCPServer

import guard

server = MCPServer("python-guarded-stateless", log_level="WARNING", auth=guard.SETTINGS, token_verifier=guard.Verifier())
server.tool(structured_output=False)(guard.read)
guard.serve(server.streamable_http_app())
