"""What the commands share that start a job: its request with a webhook, the call, and the job's id as output."""

import functools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from receiver.cli.common.filter_options import json_option
from receiver.cli.common.output import note, quoted, write_json, write_line
from receiver.cli.common.service_calls import ask, build
from receiver.cli.common.service_fields import Given, field_options, write_estimate
from receiver.cli.common.service_webhooks import Hook, hook_options
from receiver.core.text import escape_controls
from receiver.settings import load_settings

if TYPE_CHECKING:  # the models take long to load, and the client loads httpx
    from receiver.requests.costs import Estimated
    from receiver.service.client import AsyncClient
    from receiver.service.responses import JobStarted

Command = Callable[..., Any]
R = TypeVar("R", bound="Estimated")

_DOUBT = (
    "the service may have started the job: then `receiver jobs list` shows it soon, "
    "and a second start would cost again"
)


@dataclass(frozen=True, slots=True)
class Start:
    """What the options say about a job to start."""

    given: Given
    hook: Hook
    as_json: bool

    def job(
        self,
        make: Callable[..., R],
        fields: Mapping[str, Any],
        send: Callable[["AsyncClient", R], Awaitable["JobStarted"]],
        *,
        family: str,
    ) -> None:
        """Start the job and write its id; with `--estimate` write only what it may cost."""
        if self.given.estimate:
            write_estimate(build(make, **fields), as_json=self.as_json)
            return
        settings = load_settings()
        settings.plain_api_key()  # a missing key is an error before anything else is
        request = build(make, **self.hook.added_to(fields, settings))
        job = ask(settings, lambda client: send(client, request), doubt=_DOUBT)
        _write(job, _next_command(job.id or "", family, comes_here="webhook" not in fields), as_json=self.as_json)


def start_options(command: Command) -> Command:
    """Add the options that every start has, as one argument `start`."""

    @functools.wraps(command)
    def with_start(*args: Any, given: Given, hook: Hook, as_json: bool, **kwargs: Any) -> Any:
        return command(*args, start=Start(given, hook, as_json), **kwargs)

    return hook_options(field_options(json_option(with_start)))


def _next_command(job_id: str, family: str, *, comes_here: bool) -> str:
    """Return the command that shows the job; without events of it the receiver knows nothing of it."""
    if comes_here:
        return f"receiver jobs show {quoted(job_id)}, once its first event has arrived"
    return f"receiver jobs fetch {quoted(job_id)} --family {family}, once it is over"


def _write(job: "JobStarted", next_command: str, *, as_json: bool) -> None:
    """Write the id of a job that was started, and say which URLs the service left out, and what to do next."""
    job_id = job.id or ""
    if as_json:
        write_json({"job_id": job_id, "url": job.url, "invalid_urls": job.invalid_urls})
    else:
        write_line(escape_controls(job_id))
    for url in job.invalid_urls:
        note(f"left out, not a valid URL: {escape_controls(url)}")
    note(f"next: {next_command}")
