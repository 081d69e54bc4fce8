"""Charts in a branch of the repository: GitHub's API takes no files with an issue, and an issue may show one of these.

By "Repository contents": a file that exists can only be written again with its blob's `sha`, so it is looked for first;
two commits at once may conflict (409), which costs one of them its chart.
"""

from __future__ import annotations

import base64
import re
from http import HTTPStatus

from quarantine.adapters.tickets.web import Call
from quarantine.core.errors import TicketsRefused, TicketsUnavailable
from quarantine.core.tickets import Attachment

_ODD = re.compile(r"[^A-Za-z0-9._-]+")
_LINK = re.compile(r"https?://[A-Za-z0-9._~:/?#@!$&'*+,;=%-]+")  # nothing that could end the Markdown's parentheses
_LONGEST = 100


class Charts:
    """Those of one repository. `branch`: where they are committed to; empty: nowhere."""

    def __init__(self, repository: str, branch: str) -> None:
        self._repository = repository
        self._branch = branch

    def put(self, call: Call, key: str, attachment: Attachment) -> tuple[str, str]:
        """The Markdown that shows it, and what went wrong; one of the two is empty. Never raises."""
        if not self._branch:
            return "", "GitHub's API takes no files, and no branch for charts is set: the chart is not attached"
        name = _ODD.sub("-", attachment.name).strip(".-")[-_LONGEST:] or "chart"
        try:
            link = self._there(call, f"/repos/{self._repository}/contents/quarantine/{key}/{name}", key, attachment)
        except (TicketsUnavailable, TicketsRefused) as error:
            return "", f"the chart is not attached ({error})"
        return f"![{name}]({link}?raw=true)", ""

    def _there(self, call: Call, path: str, key: str, attachment: Attachment) -> str:
        """Its page. An earlier attempt may have put it there."""
        answer = call.get(path, {"ref": self._branch}, known=(HTTPStatus.NOT_FOUND,))
        found = answer.body
        if answer.status == HTTPStatus.NOT_FOUND:
            content = base64.b64encode(attachment.content).decode()
            body = {"message": f"Chart of case {key}", "content": content, "branch": self._branch}
            answer = call.send("PUT", path, body)
            found = answer.body.get("content") if isinstance(answer.body, dict) else None
        match found:
            case {"html_url": str(url)} if _LINK.fullmatch(url):
                pass
            case _:
                call.garbled(answer, wrote=True)
        return url
