"""Questions to servers on loopback; nothing is imported for them."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

ASK_SECONDS = 2.0


def server_answers(url: str, seconds: float = ASK_SECONDS) -> bool:
    """Whether a Prefect server answers."""
    return get_json(f"{url}/health", seconds=seconds) is True


def get_json(url: str, body: Any = None, seconds: float = ASK_SECONDS) -> Any:
    """What a server on loopback answers, as an object; None for no answer, or none that is well."""
    parts = urlsplit(url)
    # http.client, not urllib: it knows nothing of proxies, which have no business on loopback
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=seconds)
    try:
        if body is None:
            connection.request("GET", parts.path)
        else:
            connection.request("POST", parts.path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
        return json.loads(content) if answer.status == http.HTTPStatus.OK else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
