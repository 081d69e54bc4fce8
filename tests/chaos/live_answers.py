"""What a dependency answers that is not itself: a login page, something else's JSON, too little, or to wait."""

from __future__ import annotations

from tests.chaos.live_stand import KUBERNETES, POSTGRES, PROMETHEUS, SLACK, TICKETS
from tests.chaos.toxic_http import http

HTML = "<!DOCTYPE html><html><body>Please sign in &hellip;</body></html>"
NOT_IT = http(200, '{"hello": "world"}')
EMPTY = http(200, '{"status": "success", "data": {"resultType": "vector", "result": []}}')
NO_NODES = http(200, '{"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}')
BUSY = '{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "TooManyRequests", "code": 429}'
PAGE, BROKEN = http(200, HTML, "text/html"), http(500, HTML, "text/html")
WRONG: dict[str, tuple[bytes, ...]] = {
    PROMETHEUS: (PAGE, NOT_IT, EMPTY, BROKEN),
    KUBERNETES: (PAGE, NOT_IT, NO_NODES, BROKEN),
    POSTGRES: (b"\x00\xffnot a word of it\n", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    SLACK: (
        PAGE,
        http(200, '["ok"]'),
        http(200, '{"ok": true}'),
        http(500, '{"ok": false, "error": "internal_error"}'),
    ),
    TICKETS: (PAGE, NOT_IT, BROKEN),
}
LIMITED = {
    PROMETHEUS: http(429, "slow down", "text/plain", Retry_After="1"),
    KUBERNETES: http(429, BUSY, Retry_After="1"),
    SLACK: http(429, '{"ok": false, "error": "ratelimited"}', Retry_After="1"),
    TICKETS: http(429, '{"error": "slow down"}', Retry_After="1"),
}
