"""Verification of access tokens for the guarded servers of this directory."""

import json
import socket
import sys
import urllib.request
from typing import Any

import anyio
import jwt
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings

READ = "notes:read"
LISTENER = socket.create_server(("127.0.0.1", 0))
ORIGIN = f"http://127.0.0.1:{LISTENER.getsockname()[1]}"
ISSUER = sys.argv[1]
SETTINGS = AuthSettings(
    issuer_url=ISSUER, resource_server_url=f"{ORIGIN}/mcp", required_scopes=[READ], validate_token_resource=True
)


class Verifier:
    """Verifies the signature and the issuer. The SDK compares the resource."""

    def __init__(self) -> None:
        with urllib.request.urlopen(f"{ISSUER}/.well-known/openid-configuration") as response:
            self.keys = jwt.PyJWKClient(json.load(response)["jwks_uri"])

    async def verify_token(self, token: str) -> AccessToken | None:
        try:
            return await anyio.to_thread.run_sync(self.verified, token)
        except jwt.PyJWTError:
            return None

    def verified(self, token: str) -> AccessToken:
        key = self.keys.get_signing_key_from_jwt(token)
        options = {"verify_aud": False, "require": ["exp", "aud", "sub"]}
        claims = jwt.decode(token, key.key, algorithms=["ES256"], issuer=ISSUER, options=options)
        return AccessToken(
            token=token,
            client_id=claims["client_id"],
            scopes=claims["scope"].split(),
            expires_at=claims["exp"],
            resource=claims["aud"],
            subject=claims["sub"],
        )


def read() -> str:
    """Tells who calls"""
    return f"read by {get_access_token().subject}"


def serve(app: Any) -> None:
    """Listens, and prints the URL."""
    print(ORIGIN, flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[LISTENER])
