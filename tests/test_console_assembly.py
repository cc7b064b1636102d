"""What the console shows of the settings, and how it checks a deployment."""

import asyncio
import sys
from pathlib import Path

import pytest

from receiver.console import check_deployment, shown_settings
from receiver.settings import Settings


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        ("base_url", "https://me:hunter2@proxy.test/v1", "https://***@proxy.test/v1"),
        ("base_url", "https://hunter2@proxy.test", "https://***@proxy.test"),
        ("base_url", "https://me:hunter2@odd@proxy.test", "https://***@proxy.test"),
        ("base_url", "https://api.test/a@b", "https://api.test/a@b"),
        ("store", "postgresql://me:hunter2@db.test:5432/events", "postgresql://db.test:5432/events"),
        ("secrets", "hunter2", "set, not shown"),
        ("tokens", "hunter2", "set, not shown"),
        ("api_key", "hunter2", "set, not shown"),
        ("metrics_token", "hunter2", "set, not shown"),
        ("console_password", "hunter2", "set, not shown"),
    ],
)
def test_no_setting_shows_a_secret(field: str, value: str, shown: str) -> None:
    settings = Settings(_env_file=None)
    if shown == "set, not shown":
        header = {"token_header": "X-Token"} if field == "tokens" else {}
        settings = Settings(_env_file=None, **header, **{field: value})
    else:  # also a URL that these settings refuse
        settings = settings.model_copy(update={field: value})

    (row,) = [one for one in shown_settings(settings) if one.name == f"RECEIVER_{field.upper()}"]

    assert row.value == shown
    assert "hunter2" not in repr(shown_settings(settings))


async def test_a_check_that_nobody_waits_for_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Handlers may take long to import, and the console may stop meanwhile."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "import time; print(flush=True); time.sleep(600)", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    await process.stdout.readline()

    async def start(*arguments: str, **options: object) -> asyncio.subprocess.Process:
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    checking = asyncio.create_task(check_deployment(Settings(_env_file=None)))
    await asyncio.sleep(0)
    checking.cancel()
    await asyncio.gather(checking, return_exceptions=True)

    assert process.returncode is not None


def test_a_setting_of_a_flag_is_told_apart_from_one_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server hands its flags to the console's process in the environment."""
    monkeypatch.setenv("RECEIVER_PORT", "8100")
    monkeypatch.setenv("RECEIVER_GRACE", "5s")

    rows = shown_settings(Settings(_env_file=None, host="127.0.0.2"), by_flag=("port",))

    shown = {row.name: (row.value, row.source) for row in rows}
    assert shown["RECEIVER_PORT"] == ("8100", "flag")
    assert shown["RECEIVER_GRACE"] == ("0:00:05", "environment")
    assert shown["RECEIVER_HOST"][1] == ".env, platform or program"
    assert shown["RECEIVER_PATH"] == ("/webhooks", "default")
