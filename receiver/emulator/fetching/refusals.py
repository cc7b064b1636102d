"""The failures of a fetch with the service's codes. Texts name the URL without its credentials."""

import ssl
from collections.abc import Iterator

import httpcore

from receiver.emulator.failures import ScrapeFailed


def site_error(url: str, name: str, text: str = "") -> ScrapeFailed:
    """Return the failure of a site under the name that browsers use, such as ERR_CONNECTION_REFUSED."""
    more = f" {text}" if text else ""
    return ScrapeFailed("SCRAPE_SITE_ERROR", f"The page {url} could not be loaded: {name}.{more}")


def too_large(url: str, limit: int) -> ScrapeFailed:
    """Return the failure of a page above the limit."""
    return site_error(url, "ERR_FILE_TOO_BIG", f"The emulator reads at most {limit:,} bytes.")


def no_such_host(host: str) -> ScrapeFailed:
    """Return the failure of an unknown host name."""
    return ScrapeFailed(
        "SCRAPE_DNS_RESOLUTION_ERROR", f"The host {host} could not be found: its name has no address."
    )


def timed_out(url: str, seconds: float) -> ScrapeFailed:
    """Return the failure of a page that took too long."""
    return ScrapeFailed("SCRAPE_TIMEOUT", f"The page {url} was not loaded within {seconds:g} seconds.")


class HostNotAllowed(ScrapeFailed):
    """The emulator may not connect to any address of a host."""

    def __init__(self, host: str, reason: str) -> None:
        text = f"The host {host} is not fetched from: ERR_BLOCKED_BY_CLIENT. {reason}"
        super().__init__("SCRAPE_SITE_ERROR", text)


def translated(url: str, error: Exception) -> ScrapeFailed:
    """Return the failure of a page for an error on the network."""
    for cause in _causes(error):
        match cause:
            case ScrapeFailed():
                return cause
            case ssl.SSLError():
                reason = cause.reason or type(cause).__name__
                return ScrapeFailed("SCRAPE_SSL_ERROR", f"The page {url} has no valid TLS connection: {reason}.")
            case ConnectionRefusedError():
                return site_error(url, "ERR_CONNECTION_REFUSED")
            case ConnectionResetError() | BrokenPipeError():
                return site_error(url, "ERR_CONNECTION_RESET")
    return site_error(url, _name_of(error))


def _name_of(error: Exception) -> str:
    match error:
        case httpcore.RemoteProtocolError() if "without sending a response" in str(error):
            return "ERR_EMPTY_RESPONSE"
        case httpcore.RemoteProtocolError() if "without sending complete" in str(error):
            return "ERR_CONTENT_LENGTH_MISMATCH"
        case httpcore.RemoteProtocolError():
            return "ERR_INVALID_HTTP_RESPONSE"
        case httpcore.ReadError() | httpcore.WriteError():
            return "ERR_CONNECTION_RESET"
        case httpcore.TimeoutException() | TimeoutError():
            return "ERR_TIMED_OUT"
    return "ERR_ADDRESS_UNREACHABLE"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, within a limit of steps."""
    seen: list[BaseException] = []
    rest: list[BaseException] = [error]
    while rest and len(seen) < 20:
        one = rest.pop(0)
        if one in seen:
            continue
        seen.append(one)
        yield one
        rest += one.exceptions if isinstance(one, BaseExceptionGroup) else ()
        rest += [cause for cause in (one.__cause__, one.__context__) if cause is not None]
