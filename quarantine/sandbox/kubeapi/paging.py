"""Continue tokens: where a list goes on, and at which revision. The format is the real server's."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass

from quarantine.sandbox.kubeapi.errors import ApiError, bad_request
from quarantine.sandbox.kubeapi.store import Key

_VERSION = "meta.k8s.io/v1"
INCONSISTENT = -1  # go on with whatever is there now


@dataclass(frozen=True, slots=True)
class Cursor:
    """List on after `last`, as of `revision`."""

    revision: int
    last: Key


def encode_cursor(cursor: Cursor) -> str:
    """The token."""
    text = json.dumps({"v": _VERSION, "rv": cursor.revision, "start": "/".join(cursor.last) + "\0"})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(token: str) -> Cursor:
    """Raises 400 with the real server's words."""
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise _broken("illegal base64 data at input byte 0") from error
    try:
        found = json.loads(raw)
    except ValueError as error:
        first = repr(chr(raw[0])) if raw else ""
        why = f"invalid character {first} looking for beginning of value" if raw else "unexpected end of JSON input"
        raise _broken(why) from error
    match found:
        case {"v": str(version), "rv": int(revision), "start": str(start)} if version == _VERSION and "/" in start:
            namespace, _, name = start.removesuffix("\0").partition("/")
            return Cursor(revision, (namespace, name))
    raise _broken("not a token of this server")


def _broken(why: str) -> ApiError:
    return bad_request(f"invalid continue token: continue key is not valid: {why}")
