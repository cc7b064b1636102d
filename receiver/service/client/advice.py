"""Advice for people whose call did not succeed."""

from collections.abc import Mapping

from receiver.errors import (
    Conflict,
    Forbidden,
    KeyRefused,
    NotFound,
    PaymentRequired,
    RateLimited,
    ServerError,
    ServiceError,
    ServiceUnreachable,
    UnexpectedAnswer,
)

_WHAT_TO_DO: Mapping[type[ServiceError], str] = {
    UnexpectedAnswer: "is RECEIVER_BASE_URL the address of the service's API? If so, try again later",
    ServiceUnreachable: "check RECEIVER_BASE_URL and the network, and try again",
    KeyRefused: "check RECEIVER_API_KEY against the keys of your account",
    PaymentRequired: "the account has not enough credits for this: buy some, or ask for less",
    Forbidden: "the service refuses this site, or your account does not have what was asked for",
    NotFound: "nothing is there: a wrong id, results that expired (they are kept for 24 hours), or "
    "RECEIVER_BASE_URL is not the address of the service's API",
    Conflict: "one that is paused has to be resumed, one that runs has to end, and one that is over stays so",
    RateLimited: "the limits of your plan are reached: wait, and try again",
    ServerError: "the service has a fault: try again later",
}


def advise(error: ServiceError) -> str:
    """Return how a call failed, and what to do about it if that is known."""
    advice = next((words for kind, words in _WHAT_TO_DO.items() if isinstance(error, kind)), None)
    if isinstance(error, RateLimited) and error.retry_after is not None:
        advice = f"the limits of your plan are reached: try again after {error.retry_after.total_seconds():.0f} s"
    if isinstance(error, ServerError) and (error.code or "").startswith("SCRAPE_"):
        advice = "the service could not scrape this page"
    return str(error) if advice is None else f"{error}: {advice}"
