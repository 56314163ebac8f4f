"""What the Hub and the network answer, as errors in the user's terms."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from importer.http.ranges import UnreachableError
from store.errors import AuthError, IngotError, NetworkError, NotFoundError
from store.text import printable

if TYPE_CHECKING:
    import httpx2

_TOO_MANY: Final = 429
_UNAVAILABLE: Final = frozenset({408, 500, 502, 503, 504})
_LOG_IN: Final = "for a private repository set HF_TOKEN or run `hf auth login`"
_LATER: Final = "Run the command again later: what has arrived is kept"


class OfflineError(NotFoundError):
    """Something is not in the cache, and the user forbade the network."""


@contextlib.contextmanager
def translated(repository: str) -> Iterator[None]:
    """Turn what huggingface_hub and its HTTP client raise into errors for the user.

    Raises:
        IngotError: whatever failed; no message has the token in it.
    """
    import httpx2  # noqa: PLC0415 - comes with huggingface_hub, start-up is a promise
    from huggingface_hub.errors import (  # noqa: PLC0415
        HfHubHTTPError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
    )

    try:
        yield
    except OfflineModeIsEnabled as error:
        raise OfflineError("HF_HUB_OFFLINE is set", code="E_HUB_OFFLINE") from error
    except HfHubHTTPError as error:
        raise refused(error.response, repository) from error
    except LocalEntryNotFoundError as error:
        raise unreachable(error.__cause__ or error) from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise unreachable(error) from error


def unreachable(error: BaseException) -> UnreachableError:
    """Return an error that says why there was no answer, or not all of one."""
    what = re.sub(r"^\[Errno -?\d+\] ", "", without_token(str(error))) or type(error).__name__
    return UnreachableError(
        f"cannot reach the Hub at `{_host(error)}`: {printable(what, 300)}",
        code="E_HUB_UNREACHABLE",
        hint=f"Check the network and HF_ENDPOINT. {_LATER}",
    )


def refused(response: httpx2.Response, repository: str) -> IngotError:  # noqa: PLR0911 - a list
    """Return an error that says what an answer with a status of 400 or more means."""
    status = response.status_code
    word = response.headers.get("X-Error-Code", "")
    named = f"`{printable(repository)}`"
    hosts = {hop.url.netloc for hop in (*response.history, response)}
    if len(hosts) > 1 and status not in _UNAVAILABLE | {_TOO_MANY}:
        # The storage behind the Hub: its addresses are signed and live for minutes.
        return UnreachableError(
            f"the storage of {named} answers with status {status}",
            code="E_HUB_STORAGE",
            hint=_LATER,
        )
    if status in _UNAVAILABLE:
        return UnreachableError(
            f"the Hub answers with status {status}", code="E_HUB_UNREACHABLE", hint=_LATER
        )
    if status == _TOO_MANY:
        return _limited(response)
    if word == "GatedRepo":
        return AuthError(
            f"the Hub gives {named} only to those who were granted access",
            code="E_HUB_GATED",
            hint=f"Ask for access to {named} on its page on the Hub, then set HF_TOKEN or run "
            "`hf auth login`",
        )
    if status == 401:  # noqa: PLR2004 - unauthorized
        return _unauthorized(response, named)
    if status == 403:  # noqa: PLR2004 - forbidden
        return AuthError(
            f"the Hub forbids reading {named} with these credentials",
            code="E_HUB_FORBIDDEN",
            hint="Use a token that may read it: set HF_TOKEN or run `hf auth login`",
        )
    if status == 404:  # noqa: PLR2004 - not found
        return _missing(word, named)
    return NetworkError(f"the Hub answers with status {status}", code="E_HUB_STATUS")


def odd_answer(what: str) -> NetworkError:
    """Return an error for an answer that the Hub would not give, such as that of a proxy."""
    return NetworkError(
        f"the answer is not the Hub's: {printable(what, 300)}",
        code="E_HUB_ANSWER",
        hint="Is HF_ENDPOINT right, and does no proxy want a login?",
    )


def without_token(message: str) -> str:
    """Return a message without the token: a client may quote a header that it did not like."""
    from huggingface_hub import get_token  # noqa: PLC0415

    token = get_token()
    return message.replace(token, "***") if token else message


def _host(error: BaseException) -> str:
    from huggingface_hub import constants  # noqa: PLC0415

    address = constants.ENDPOINT
    with contextlib.suppress(AttributeError, RuntimeError):
        # The storage has a host of its own, and a firewall may know only one of them.
        address = str(error.request.url)  # type: ignore[attr-defined]  # of HTTP errors
    return printable(urlsplit(address).netloc.rpartition("@")[2])  # without a password


def _limited(response: httpx2.Response) -> NetworkError:
    from huggingface_hub.utils import parse_ratelimit_headers  # noqa: PLC0415

    limit = parse_ratelimit_headers(response.headers)
    after = response.headers.get("Retry-After", "")
    wait = str(limit.reset_in_seconds) if limit and not limit.remaining else after
    when = f"in {wait} seconds" if wait.isdigit() else "later"
    return NetworkError(
        "the Hub answers with status 429: it limits requests, and there were too many",
        code="E_HUB_LIMIT",
        hint=f"Run the command again {when}: what has arrived is kept. Tokens raise the limit",
    )


def _unauthorized(response: httpx2.Response, named: str) -> AuthError:
    if "authorization" in response.request.headers:
        return AuthError(
            f"the Hub refuses the token for {named}",
            code="E_HUB_TOKEN",
            hint="Set HF_TOKEN to a valid one, unset it, or run `hf auth login`",
        )
    return AuthError(
        f"the Hub has no model repository {named}, or shows it only to those who log in",
        code="E_HUB_UNAUTHORIZED",
        hint=f"Check the name; {_LOG_IN}",
    )


def _missing(word: str, named: str) -> NotFoundError:
    if word == "RevisionNotFound":
        return NotFoundError(
            f"{named} has no such revision",
            code="E_HUB_REVISION",
            hint="Name a branch, a tag or a commit: `hf:org/repo@revision`",
        )
    if word == "EntryNotFound":
        return NotFoundError(f"a file of {named} is gone from the Hub", code="E_HUB_FILE")
    return NotFoundError(
        f"the Hub has no model repository {named}, or hides it from these credentials",
        code="E_HUB_REPOSITORY",
        hint=f"Check the name; {_LOG_IN}",
    )
