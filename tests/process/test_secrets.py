"""A whole run shows no secret: not its output and logs, not its errors, not the bytes of its database."""

import random
import signal
from pathlib import Path

import pytest

from receiver.core.signing import sign
from tests.process.harness import Deployment, Load, connection, raw_request, until

SECRETS = ("first-webhook-secret-5f1c", "zweites-Geheimnis-é-77aa")
TOKEN = "static-header-token-0be9"
API_KEY = "fc-api-key-4d2e"
WRONG = "a-secret-of-somebody-else-19aa"
PASSWORD = "database-password-e9f0"
JSON = ("Content-Type", "application/json")

CRASHING = """
import os
from receiver import Context, Router

router = Router()

@router.on("*")
async def record(event, ctx: Context):
    with open("handled", "a") as out:
        out.write(ctx.delivery.id + "\\n")

@router.on("*", attempts=1)
def crash(event, ctx: Context):
    ctx.log.warning("crashing", extra={"headers": ctx.delivery.headers})
    raise RuntimeError(f"{event!r} {ctx!r} {ctx.delivery.headers}")
"""


def leaks(content: bytes) -> list[str]:
    """Return the secrets that the content shows."""
    secrets = (*SECRETS, TOKEN, API_KEY, WRONG, PASSWORD)
    return [secret for secret in secrets if secret.encode() in content]


def kept(folder: Path) -> bytes:
    """Return the bytes of the database, its journal included."""
    return b"".join(path.read_bytes() for path in folder.glob("receiver.db*"))


@pytest.mark.parametrize("json_logs", ["true", "false"])
async def test_a_whole_run_shows_no_secret(tmp_path: Path, json_logs: str) -> None:
    """Debug logs, refused and broken deliveries, a crashing handler, and every command that reads."""
    deployment = Deployment(
        tmp_path,
        secrets=",".join(SECRETS),
        token_header="X-Hook-Token",
        tokens=TOKEN,
        api_key=API_KEY,
        log_level="debug",
        json_logs=json_logs,
        max_body="100000",
    )
    deployment.write_handlers(CRASHING)
    bodies = [Load(random.Random(number)).body() for number in range(8)]
    signatures = {sign(body, secret) for body in bodies for secret in (*SECRETS, WRONG)}
    everything = b""
    async with deployment.serve() as serving:
        statuses = []
        for headers, body in (
            ([("X-Firecrawl-Signature", sign(bodies[0], SECRETS[0]))], bodies[0]),
            ([("X-Firecrawl-Signature", sign(bodies[1], SECRETS[1]))], bodies[1]),
            ([("X-Hook-Token", TOKEN)], bodies[2]),
            ([("X-Hook-Token", TOKEN), ("Authorization", f"Bearer {TOKEN}"), ("X-Copy", TOKEN)], bodies[3]),
            ([("X-Hook-Token", TOKEN), ("Cookie", f"session={TOKEN}"), ("X-Copy", SECRETS[0])], bodies[4]),
            ([("X-Firecrawl-Signature", sign(bodies[5], WRONG))], bodies[5]),
            ([("X-Hook-Token", WRONG)], bodies[6]),
            ([("X-Hook-Token", TOKEN + "x")], bodies[6]),
            ([("X-Firecrawl-Signature", TOKEN)], bodies[6]),
            ([], bodies[7]),
            ([("X-Hook-Token", TOKEN)], b"[]"),
            ([("X-Hook-Token", TOKEN)], bodies[0].replace(b"true", b"false")),
            ([("X-Hook-Token", TOKEN)], bodies[0] + b" " * 100_000),
        ):
            async with connection(serving.port) as line:
                await line.say(raw_request("POST", "/webhooks", body, [JSON, *headers]))
                answer = await line.answer()
                statuses.append(answer.status)
                everything += repr(answer).encode()
        assert statuses == [200] * 5 + [401] * 5 + [400, 200, 413]

        def states() -> set[str]:
            return {state for _, state, _ in deployment.work()}

        await until(lambda: len(deployment.work()) == 10 and states() == {"done", "dead"}, "all to be done or dead")
        url = f"http://user:{PASSWORD}@127.0.0.1:{serving.port}/webhooks"
        for command in (
            ["check"],
            ["events", "list"],
            ["events", "list", "--json"],
            *(["events", how, key] for key in list(deployment.stored())[:2] for how in ("show", "raw")),
            *(["events", "show", "--json", key] for key in list(deployment.stored())[2:]),
            ["send", "crawl.page", "--to", url],
            ["send", "crawl.page", "--to", url.replace("/webhooks", "/elsewhere")],
            ["send", "crawl.page", "--to", f"http://user:{PASSWORD}@127.0.0.1:1/"],
            ["verify", "handlers.py", "--signature", "sha256=" + "0" * 64],
        ):
            everything += deployment.run(*command).text.encode()
        everything += kept(tmp_path)
        serving.send_signal(signal.SIGTERM)
        assert await serving.exit_code() == 0
        await serving.gone()
        assert "crashing" in serving.output
        everything += serving.output.encode()
    everything += kept(tmp_path)

    assert leaks(everything) == []
    assert [signature for signature in signatures if signature[7:].encode() in everything] == []


@pytest.mark.parametrize(
    "environment",
    [
        {"RECEIVER_SECRETS": f'["{SECRETS[0]}"'},
        {"RECEIVER_SECRETS": f'[["{SECRETS[0]}"]]'},
        {"RECEIVER_SECRETS": f'["{SECRETS[0]}", 1, ""]'},
        {"RECEIVER_SECRET": SECRETS[0]},
        {"RECEIVER_TOKENS": TOKEN},
        {"RECEIVER_TOKENS": TOKEN, "RECEIVER_TOKEN_HEADER": "not a name"},
        {"RECEIVER_API_KEYS": API_KEY},
        {"RECEIVER_STORE": f"postgresql://user:{PASSWORD}@127.0.0.1/db"},
        {"DATABASE_URL": f"postgresql://user:{PASSWORD}@127.0.0.1/db"},
        {"RECEIVER_STORE": f"mysql://user:{PASSWORD}@127.0.0.1/db"},
        {"RECEIVER_STORE": f"//user:{PASSWORD}@127.0.0.1/db"},
    ],
    ids=str,
)
def test_a_wrong_setting_is_reported_without_its_value(tmp_path: Path, environment: dict[str, str]) -> None:
    """The name of the variable is enough to find it; the same in `.env`."""
    deployment = Deployment(tmp_path, secrets="")

    done = [deployment.run(command, environment=environment) for command in ("check", "work")]
    (tmp_path / ".env").write_text("".join(f"{name}={value}\n" for name, value in environment.items()))
    done.append(deployment.run("check"))

    assert leaks("".join(one.text for one in done).encode()) == []
    assert all("Traceback" not in one.text for one in done)
