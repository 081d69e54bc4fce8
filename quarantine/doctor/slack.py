"""Slack: the tokens, what they may, and whether the channels can be read. Nothing is posted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta

from slack_sdk.web import SlackResponse

from quarantine.adapters.slack.api import asked
from quarantine.adapters.slack.notice import connect_notices
from quarantine.adapters.slack.notifier import client_of
from quarantine.adapters.slack.people import Members
from quarantine.adapters.slack.socketmode import Listener
from quarantine.core.errors import NotifierRefused, QuarantineError, Unavailable
from quarantine.doctor.finding import Finding, fault, good, note, unreachable, warning
from quarantine.doctor.patient import Patient
from quarantine.listening import approvers

TO_TELL = ("chat:write", "files:write")
TO_HEAR = ("users:read", "usergroups:read", "commands")
HISTORY = ("channels:history", "groups:history")  # of public and of private channels: one of them will do
_TIMEOUT = timedelta(seconds=10)


def check(patient: Patient) -> Iterator[Finding]:
    """Token, scopes, channels, and what is heard."""
    slack = patient.settings.slack
    if slack.token is None or slack.channel is None:
        lacks = "token and channel" if slack.token is None and slack.channel is None else ""
        lacks = lacks or ("token" if slack.token is None else "channel")
        told = note if lacks == "token and channel" else fault
        yield told(
            f"Slack is not in use: there is no {lacks}", "set slack.token_file and slack.channel to be told there"
        )
        return
    token = slack.token.get_secret_value()
    headers: dict[str, str] = {}
    client = client_of(token, slack.base_url, _TIMEOUT)

    def test() -> SlackResponse:
        response = client.auth_test()
        headers.update({str(name).lower(): str(value) for name, value in response.headers.items()})
        return response

    who = asked(client, "auth.test", test)
    yield good(f"Slack takes the token: bot {_text(who, 'user')} of workspace {_text(who, 'team')}")
    yield from _scopes(headers.get("x-oauth-scopes", ""), hears=slack.listens)
    rules = patient.known_rules()
    routed = [route.channel for route in rules.fleet.routes] if rules is not None else []
    for channel in dict.fromkeys([slack.channel, *routed]):
        yield from _channel(patient, token, channel)
    yield from _hearing(patient, token)


def _scopes(told: str, *, hears: bool) -> Iterator[Finding]:
    """By the header of Slack's answer; where a proxy has taken it out, nothing is said."""
    given = {scope.strip() for scope in told.split(",") if scope.strip()}
    if not given:
        return
    missing = [scope for scope in (*TO_TELL, *(TO_HEAR if hears else ())) if scope not in given]
    if not given & set(HISTORY):
        missing.append(" or ".join(HISTORY))
    if not missing:
        yield good("the token has all scopes that are used")
    for scope in missing:
        yield (warning if scope == "files:write" else fault)(
            f"the token lacks the scope {scope}", "add it to the app and install the app again, see docs/slack-app.md"
        )


def _channel(patient: Patient, token: str, channel: str) -> Iterator[Finding]:
    settings = patient.settings
    try:
        connect_notices(
            token, channel, cluster=settings.cluster, now=patient.now, base_url=settings.slack.base_url
        ).check()
    except QuarantineError as error:
        yield _failed(f"channel {channel}: ", error)
    else:
        yield good(f"channel {channel} can be read")


def _hearing(patient: Patient, token: str) -> Iterator[Finding]:
    slack, rules = patient.settings.slack, patient.known_rules()
    groups = approvers(rules) if rules is not None else frozenset[str]()
    if not slack.listens:
        if groups:
            yield warning(
                "policies want approvals of Slack groups, and nothing is heard from Slack",
                "set slack.app_token_file, or approve by `quarantine approve`",
            )
        return
    client = client_of(token, slack.base_url, _TIMEOUT)
    try:
        Members(client, groups=lambda: groups, now=patient.now).check()
        yield good("Slack tells who people are" + (f", and who is in {', '.join(sorted(groups))}" if groups else ""))
    except QuarantineError as error:
        yield _failed("who people are: ", error)
    if slack.app_token is None:
        yield note(f"Slack calls in at {patient.settings.door.listen}, which was not tried from outside")
        return
    try:
        Listener(slack.app_token.get_secret_value(), lambda *_: False, base_url=slack.base_url).check()
        yield good("Slack takes the app's token, and gives connections for buttons and commands")
    except QuarantineError as error:
        yield _failed("Socket Mode: ", error)


def _failed(what: str, error: QuarantineError) -> Finding:
    if isinstance(error, Unavailable):
        return unreachable(f"{what}{error}")
    advice = "see docs/slack-app.md" if isinstance(error, NotifierRefused) else ""
    return fault(f"{what}{error}", advice)


def _text(answer: Mapping[str, object], name: str) -> str:
    value = answer.get(name)
    return value[:80] if isinstance(value, str) else "(unnamed)"
