"""`receiver start agent`: start an agent that collects data by itself."""

import click

from receiver.cli.common.filter_options import text
from receiver.cli.common.service_fields import require_argument
from receiver.cli.start.jobs import Start, start_options


@click.command()
@click.argument("prompt", type=text, required=False)
@click.argument("urls", metavar="[URL]...", type=text, nargs=-1)
@click.option("--max-credits", type=int, metavar="N", help="The most credits that the job may cost.")
@start_options
def agent(prompt: str | None, urls: tuple[str, ...], max_credits: int | None, start: Start) -> None:
    """Let an agent collect data by itself.

    It looks for what PROMPT asks for, beginning at the URLs if there are any. The job's id is written to standard
    output. --set schema=JSON gives the form of the result.
    """
    from receiver.requests import AgentRequest

    fields = start.given.but(prompt=prompt, urls=urls, maxCredits=max_credits)
    require_argument(fields, "prompt", "PROMPT")
    start.job(AgentRequest, fields, lambda client, request: client.agent(request), family="agent")
