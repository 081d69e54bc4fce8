"""What a Node object says is handed to programs as a word, or not at all."""

from __future__ import annotations

import pytest

from quarantine.adapters.placeholders import IN_COMMANDS, fill
from quarantine.core.errors import Refused
from tests.adapters.test_commands import order


@pytest.mark.parametrize(
    "said",
    ["-oProxyCommand=/tmp/evil", "--config=/etc/shadow", "@/etc/passwd", "a b", "$(id)", "a;b", "/etc", ".ssh", ""],
)
def test_what_might_be_more_than_a_word_is_refused(said: str) -> None:
    with pytest.raises(Refused, match="system_uuid"):
        fill("{system_uuid}", order("ssh", system_uuid=said), IN_COMMANDS)


@pytest.mark.parametrize("said", ["ec2-1", "4C4C4544-0042-3510", "aws:///eu-1a/i-0123", "ocid1.instance.oc1..aaaa"])
def test_names_of_machines_are_handed_on(said: str) -> None:
    assert fill("x={provider_id} {other}", order("ssh", provider_id=said), IN_COMMANDS) == f"x={said} {{other}}"
