"""What `{node}` and its kin in a procedure stand for."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from quarantine.core.errors import Refused
from quarantine.ports import Order

IN_JOBS: Final = frozenset({"node", "case", "run"})
IN_COMMANDS: Final = IN_JOBS | {"provider_id", "system_uuid"}

# A Node object says what its provider id is, and a procedure may hand its words to a shell.
# Nor does any begin like an option, or like a file to be read: `-oProxyCommand=…`, `@/etc/passwd`.
_HARMLESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+=,-]*", re.ASCII)


def fill(text: str, order: Order, names: Collection[str]) -> str:
    """The text with these placeholders filled in; other braces stay as they are.

    Raises Refused where one stands for nothing, or for what a shell might take for more than a word.
    """
    known = _meanings(order)

    def meaning(found: re.Match[str]) -> str:
        name = found[1]
        if name not in names:
            return found[0]
        value = known[name]
        if not value:
            raise Refused(
                f"The procedure {order.run.procedure} needs {{{name}}}, which node {order.node} does not tell."
            )
        if not _HARMLESS.fullmatch(value):
            raise Refused(
                f"The procedure {order.run.procedure} needs {{{name}}}, and that of {order.node} holds characters "
                "that are not handed to programs; leave it out of the procedure."
            )
        return value

    return re.sub(r"\{([a-z_]+)\}", meaning, text)


def _meanings(order: Order) -> Mapping[str, str]:
    return {
        "node": order.node,
        "case": order.case,
        "run": order.run.name,
        "provider_id": order.provider_id,
        "system_uuid": order.system_uuid,
    }
