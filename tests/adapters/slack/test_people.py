"""Whose word counts: full members of our own team; what Slack does not tell is no yes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from slack_sdk import WebClient

from quarantine.adapters.slack.notifier import client_of
from quarantine.adapters.slack.people import KEPT, Member, Members, Outsider
from quarantine.core.errors import NotifierRefused
from quarantine.sandbox.slack import ALL_SCOPES, Fault, FaultKind, SlackServer, serve_slack
from tests.adapters.slack.conftest import APPROVERS, OTHERS, TOKEN, Hands

OURS = "T0SANDBOX"


@pytest.fixture
def client(slack: SlackServer) -> WebClient:
    return client_of(TOKEN, slack.base_url, timedelta(seconds=5))


@pytest.fixture
def members(client: WebClient, clock: Hands) -> Members:
    return Members(client, groups=lambda: (APPROVERS, OTHERS), now=clock)


def test_a_member_is_known_with_their_groups(members: Members) -> None:
    assert members.who("U0ANN", OURS) == Member("U0ANN", "ann", (APPROVERS, OTHERS))
    assert members.who("U0BOB", OURS) == Member("U0BOB", "bob", (OTHERS,))


def test_the_trail_names_the_id_and_no_name_that_is_none(members: Members) -> None:
    named = [members.who(user, OURS) for user in ("U0ANN", "U0ODD")]
    assert [m.actor for m in named if isinstance(m, Member)] == ["ann (U0ANN)", "U0ODD"]


@pytest.mark.parametrize(
    ("user", "team", "why"),
    [
        ("U0FAR", "T0OTHER", "only members of the workspace"),
        ("U0FAR", OURS, "only members of the workspace"),  # whatever comes with the word
        ("U0ANN", "T0OTHER", "only members of the workspace"),
        ("U0SISTER", "T0SISTER", "only members of the workspace"),
        ("U0GRID", "E0ORG", "only members of the workspace"),  # this workspace is of no organization
        ("U0GUEST", OURS, "guests"),
        ("U0ONE", OURS, "guests"),
        ("U0GONE", OURS, "deactivated"),
        ("U0BOT", OURS, "no person's"),
        ("U0NOBODY", OURS, "does not tell"),
    ],
)
def test_nobody_else_counts(user: str, team: str, why: str, members: Members) -> None:
    who = members.who(user, team)
    assert isinstance(who, Outsider)
    assert why in who.why


@pytest.mark.parametrize(
    ("user", "team", "everywhere", "counts"),
    [
        ("U0SISTER", "E0ORG", True, True),
        ("U0SISTER", "T0SISTER", True, True),
        ("U0SISTER", "E0ORG", False, False),  # of another workspace, and the app is installed in ours alone
        ("U0GRID", "E0ORG", False, True),
        ("U0ANN", "T0SANDBOX", False, True),
        ("U0FAR", "T0OTHER", True, False),
        ("U0FAR", "E0ORG", True, False),
    ],
)
def test_of_an_organization_those_count_for_whom_the_app_is_installed(
    user: str,
    team: str,
    everywhere: bool,
    counts: bool,
    client: WebClient,
    clock: Hands,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = client.auth_test

    def whole() -> Mapping[str, Any]:
        answer = asked()
        answer.data |= {"enterprise_id": "E0ORG", "is_enterprise_install": everywhere}  # type: ignore[operator]
        return answer  # type: ignore[return-value]

    monkeypatch.setattr(client, "auth_test", whole)
    members = Members(client, groups=lambda: (), now=clock)
    assert isinstance(members.who(user, team), Member) == counts


def test_what_slack_said_is_kept_for_five_minutes(
    slack: SlackServer, members: Members, advance: Callable[[timedelta], None]
) -> None:
    first = members.who("U0BOB", OURS)
    assert len(slack.requests) == 4
    assert members.who("U0BOB", OURS) == first
    assert len(slack.requests) == 4
    slack.directory.groups[APPROVERS].append("U0BOB")
    advance(KEPT)
    later = members.who("U0BOB", OURS)
    slack.directory.groups[APPROVERS].remove("U0BOB")
    assert isinstance(later, Member)
    assert later.groups == (APPROVERS, OTHERS)


@pytest.mark.parametrize("kind", [FaultKind.RATE_LIMITED, FaultKind.SERVER_ERROR, FaultKind.HTML, FaultKind.CUT_OFF])
@pytest.mark.parametrize("method", ["auth.test", "users.info"])
def test_who_is_not_known_is_refused_and_asked_about_again(
    kind: FaultKind, method: str, slack: SlackServer, members: Members
) -> None:
    slack.fail(Fault(kind, method=method))
    who = members.who("U0ANN", OURS)
    assert isinstance(who, Outsider)
    assert "try again" in who.why
    assert isinstance(members.who("U0ANN", OURS), Member)


def test_a_group_that_is_not_known_leaves_unsure_and_no_more(slack: SlackServer, members: Members) -> None:
    slack.fail(Fault(FaultKind.SERVER_ERROR, method="usergroups.users.list"))
    who = members.who("U0ANN", OURS)
    assert isinstance(who, Member)
    assert (who.groups, APPROVERS in who.unsure) == ((OTHERS,), True)


def test_what_start_up_looks_at(client: WebClient, clock: Hands, members: Members) -> None:
    members.check()
    unknown = Members(client, groups=lambda: ("S0GONE",), now=clock)
    with pytest.raises(NotifierRefused, match="no_such_subteam"):
        unknown.check()


@pytest.mark.parametrize("scope", ["users:read", "usergroups:read"])
def test_a_missing_scope_is_named_at_start_up(scope: str, clock: Hands) -> None:
    with serve_slack(token=TOKEN, channels=[], groups={APPROVERS: []}, scopes=ALL_SCOPES - {scope}) as slack:
        client = client_of(TOKEN, slack.base_url, timedelta(seconds=5))
        with pytest.raises(NotifierRefused, match=f"missing_scope \\(needs {scope}\\)"):
            Members(client, groups=lambda: (APPROVERS,), now=clock).check()


def test_no_token_is_in_what_is_logged(
    slack: SlackServer, members: Members, capsys: pytest.CaptureFixture[str]
) -> None:
    slack.fail(Fault(FaultKind.NOT_SLACK, method="users.info"))
    members.who("U0ANN", OURS)
    told = capsys.readouterr()
    assert "cannot tell who acts" in told.out + told.err
    assert TOKEN not in told.out + told.err
