"""Verifies signed tokens with PyJWT. Reads a job from standard input: keys, issuer, audience, algorithms, leeway and tokens. Prints a
list of errors, one for each token; an accepted one has the empty text."""

import json
import sys

import jwt

job = json.load(sys.stdin)
keys = {key.key_id: key for key in jwt.PyJWKSet.from_dict(job["keys"]).keys}


def verify(token: str) -> None:
    key = keys[jwt.get_unverified_header(token)["kid"]]
    jwt.decode(
        token,
        key,
        algorithms=job["algorithms"],
        audience=job["audience"],
        issuer=job["issuer"],
        leeway=job["leeway"],
        options={"require": ["exp", "iss", "aud", "sub"]},
    )


errors = []
for token in job["tokens"]:
    try:
        verify(token)
        errors.append("")
    except Exception as error:  # Any error means that the token is rejected.
        errors.append(f"{type(error).__name__}: {error}")
json.dump(errors, sys.stdout)
