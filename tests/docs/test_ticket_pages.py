"""docs/tickets/{email,webhook,zendesk}.md: options that there are, examples that are taken, and states of the code."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from quarantine.adapters.tickets import email, webhook, zendesk
from quarantine.adapters.tickets.email.options import EmailOptions
from quarantine.adapters.tickets.targets import Connect, Context
from quarantine.adapters.tickets.webhook.callback import LONGEST
from quarantine.adapters.tickets.webhook.options import WebhookOptions
from quarantine.adapters.tickets.webhook.schema import Missing, NewAttachment, NewTicket, NewUpdate, schema_text
from quarantine.adapters.tickets.webhook.signature import SHORTEST_SECRET, SIGNATURE, TIMESTAMP, WINDOW
from quarantine.adapters.tickets.zendesk.options import ZendeskOptions
from quarantine.adapters.tickets.zendesk.support import ZendeskTickets
from quarantine.core.tickets import TicketState

FOLDER = Path(__file__).parents[2] / "docs/tickets"
PAGES = {kind: (FOLDER / f"{kind}.md").read_text(encoding="utf-8") for kind in ("email", "webhook", "zendesk")}
WEBHOOK = " ".join(PAGES["webhook"].split())
KINDS = [
    ("email", EmailOptions, email.connect, "password"),
    ("webhook", WebhookOptions, webhook.connect, "secret"),
    ("zendesk", ZendeskOptions, zendesk.connect, "token"),
]


@pytest.mark.parametrize(("kind", "model", "connect", "secret"), KINDS)
def test_each_option_is_told_and_the_example_is_taken(
    kind: str, model: type[BaseModel], connect: Connect, secret: str
) -> None:
    page = PAGES[kind]
    table = page[page.index("| Option |") : page.index("**Permissions.**")]
    told = {name for line in table.splitlines()[2:] if line for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert told == model.model_fields.keys() - {secret}
    assert f"`{secret}` instead of the file" in table

    (snippet,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    settings: dict[str, Any] = yaml.safe_load(snippet)["tickets"]
    options: dict[str, Any] = settings["targets"][settings["default"]]
    assert options.pop("kind") == kind
    connect(options, Context(cluster="lab", now=lambda: datetime(2026, 11, 29, tzinfo=UTC), folder=None, name="x"))


def test_the_schema_is_that_of_the_models() -> None:
    """Made anew by `python -c "from …webhook.schema import schema_text; print(schema_text(), end='')"`."""
    assert (FOLDER / "webhook.schema.json").read_text(encoding="utf-8") == schema_text()


def test_the_contract_of_the_webhook_is_told_as_it_is() -> None:
    for model in (NewTicket, NewUpdate, NewAttachment, Missing):
        assert f"`{model.__name__}`" in WEBHOOK
    assert all(f"`{state}`" in WEBHOOK for state in TicketState)
    assert f"`{TIMESTAMP}` is the time" in WEBHOOK
    assert f"`{SIGNATURE}` is `v1=`" in WEBHOOK
    assert f"at least {SHORTEST_SECRET} characters" in WEBHOOK
    assert f"at most {LONGEST // 1024} KiB" in WEBHOOK
    assert WINDOW.total_seconds() == 5 * 60
    assert "more than five minutes off" in WEBHOOK


def test_each_status_of_zendesk_is_told() -> None:
    page = PAGES["zendesk"]
    rows = re.findall(r"^\| ([a-z, ]+) \| ([a-z-]+)(?:,[^|]*)? \|$", page, re.MULTILINE)
    tickets = zendesk.connect(
        {"url": "https://acme.zendesk.com", "token": "x"},
        Context(cluster="lab", now=lambda: datetime(2026, 11, 29, tzinfo=UTC), folder=None, name="x"),
    )
    assert isinstance(tickets, ZendeskTickets)
    told = {status: state for words, state in rows for status in words.split(", ")}
    assert set(told) == {"new", "open", "pending", "hold", "solved", "closed"}
    for status, state in told.items():
        assert tickets._meaning({}, status)[1] == state
    verdicts = set(re.findall(r"`provider/([a-z-]+)`", page))
    assert verdicts == {state for state in TicketState if state.is_verdict} - {TicketState.CLOSED}
