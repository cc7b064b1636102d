"""What `receiver new` writes is run as its Dockerfile says, without an image."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

from receiver.cli.scaffold import write_deployment
from receiver.service.samples import encode, load_sample
from tests.cli.test_new import of_the_image
from tests.process.harness import Deployment, post


async def test_the_image_serves_and_its_health_check_passes(tmp_path: Path) -> None:
    """The commands are those of ENV, CMD and HEALTHCHECK; the volume is a folder here."""
    app, data = tmp_path / "app", tmp_path / "data"
    data.mkdir()
    write_deployment(app)
    [variables], [command], [check] = (of_the_image(app, name) for name in ("ENV", "CMD", "HEALTHCHECK"))
    environment = dict(word.split("=", 1) for word in shlex.split(variables.replace("/data", str(data))))
    name, *arguments = json.loads(command)
    assert name == "receiver"
    deployment = Deployment(tmp_path, HOST="127.0.0.1", STORE=environment["RECEIVER_STORE"])
    deployment.folder = app
    deployment.database = data / "receiver.db"

    def is_healthy(port: int) -> bool:
        python, *rest = json.loads(check.partition(" CMD ")[2])
        assert python == "python"
        given = {"RECEIVER_PORT": str(port), "PORT": "1"}  # a platform may set PORT; ours comes first
        return subprocess.run([sys.executable, *rest], env=given, cwd=data, capture_output=True).returncode == 0

    async with deployment.serve(*arguments[1:]) as serving:
        await serving.line("worker_started")
        assert is_healthy(serving.port)
        assert (await post(serving.port, encode(load_sample("crawl.page")))).status == 200
        await deployment.all_handled()

    assert not is_healthy(serving.port)
