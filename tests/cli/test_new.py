"""What `receiver new` writes: it can be deployed as it is. tests/process/test_deployment.py runs it."""

import re
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from datetime import timedelta
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

import receiver as package
from receiver.cli.main import receiver, run
from receiver.cli.scaffold import write_deployment
from receiver.core.units import parse_duration
from receiver.settings import Settings

STOPPING = timedelta(seconds=5) + Settings(_env_file=None).grace + Settings(_env_file=None).ack_deadline
"""What a clean end takes at most: the grace time of handlers with a margin, and the last answers."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new deployment."""
    folder = tmp_path_factory.mktemp("deployment")
    write_deployment(folder)
    return folder


def instructions(dockerfile: str) -> Iterator[tuple[str, str]]:
    """Yield the instructions of a Dockerfile with their arguments, each on one line."""
    lines = [line for line in dockerfile.splitlines() if line and not line.startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        name, _, argument = line.partition(" ")
        yield name, " ".join(argument.split())


def of_the_image(folder: Path, name: str) -> list[str]:
    """Return the arguments of all instructions with this name."""
    text = (folder / "Dockerfile").read_text()
    return [argument for instruction, argument in instructions(text) if instruction == name]


def service(folder: Path) -> Any:
    """Return the one service of the compose file."""
    content = yaml.safe_load((folder / "compose.yaml").read_text())
    assert list(content["volumes"]) == ["data"]
    [only] = content["services"].values()
    return only


def test_it_writes_handlers_and_three_ways_to_run_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says what it has written and what comes next, with `cd` where that is needed."""
    monkeypatch.chdir(tmp_path)
    assert run(receiver.main, ["new", "my shop"]) == 0
    output = capsys.readouterr().out
    assert "  cd 'my shop'\n" in output
    assert "requirements.txt; it says what to do if no package index\nhas this version" in output
    files = {str(path.relative_to(tmp_path / "my shop")) for path in (tmp_path / "my shop").rglob("*.*")}
    files |= {"Dockerfile", "Procfile", "Caddyfile"}
    assert files >= {
        "handlers/__init__.py",
        "handlers/test_pages.py",
        ".env.example",
        ".gitignore",
        ".dockerignore",
    }
    assert files >= {"requirements.txt", "compose.yaml", "receiver.service", "nginx.conf"}
    assert all(f"wrote my shop/{name}\n" in output for name in files)

    monkeypatch.chdir(tmp_path / "my shop" / "handlers")
    assert run(receiver.main, ["new", "."]) == 0
    assert "  cd " not in capsys.readouterr().out


def test_it_overwrites_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One file that is there stops it."""
    (tmp_path / "Procfile").write_text("mine")

    assert run(receiver.main, ["new", str(tmp_path)]) == 2

    assert "Procfile already exists, and nothing was written" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["Procfile"]


@pytest.mark.parametrize("command", ["new", "demo"])
def test_it_does_not_hide_a_module_of_handlers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """Python imports a folder `handlers/` in place of a file `handlers.py` beside it."""
    (tmp_path / "handlers.py").write_text("mine")

    assert run(receiver.main, [command, str(tmp_path)]) == 2

    assert "handlers.py is there" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["handlers.py"]


def test_nothing_of_it_shows_an_inner_value(written: Path) -> None:
    """Every default is one that somebody could have written."""
    text = (written / ".env.example").read_text()

    assert "Undefined" not in text
    assert "# RECEIVER_MAX_BODY=32MiB\n" in text
    assert "# RECEIVER_ACK_DEADLINE=5s\n" in text
    assert "The default depends on the machine.\n# RECEIVER_MAX_MEMORY=\n" in text


def test_every_default_of_the_example_is_a_valid_value(
    written: Path, bare_environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody may remove the comment marks. Empty values are those without a default."""
    text = (written / ".env.example").read_text()
    for name, value in re.findall(r"^# (RECEIVER_[A-Z_]+)=(.+)$", text, re.MULTILINE):
        monkeypatch.setenv(name, value)

    assert Settings() == Settings(_env_file=None)
    assert Settings().max_body == 32 * 2**20


def test_the_written_test_passes(written: Path) -> None:
    """It needs nothing but pytest."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=written,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_the_requirements_name_this_version(written: Path) -> None:
    """An upgrade is a change of this line."""
    lines = (written / "requirements.txt").read_text().splitlines()

    assert [line for line in lines if not line.startswith("#")] == [f"crawl-receiver=={package.__version__}"]


def test_the_image_runs_as_a_user_with_one_volume(written: Path) -> None:
    """The database and all output of handlers are on the volume."""
    assert of_the_image(written, "USER") == ["receiver"]
    assert of_the_image(written, "VOLUME") == ["/data"]
    [variables] = of_the_image(written, "ENV")
    assert variables.split() == [
        "RECEIVER_HOST=0.0.0.0",
        "RECEIVER_STORE=sqlite:////data/receiver.db",
        "OUTPUT_DIR=/data/output",
    ]


def test_the_image_copies_only_what_the_build_context_has(written: Path) -> None:
    """A secret in `.env` or a database in the folder never gets into it."""
    copied = {source for argument in of_the_image(written, "COPY") for source in argument.split()[:-1]}
    ignored = (written / ".dockerignore").read_text().splitlines()

    assert copied == {"requirements.txt", "*.whl", "handlers"}
    assert all((written / name).exists() for name in copied - {"*.whl"})
    assert next(line for line in ignored if not line.startswith("#")) == "*"
    assert {line[1:] for line in ignored if line.startswith("!")} == copied


def test_the_container_fits_the_image(written: Path) -> None:
    """It ends orphans, keeps the volume, listens for a proxy on this machine only, and gets time to stop."""
    container = service(written)

    [volume] = of_the_image(written, "VOLUME")
    [port] = of_the_image(written, "EXPOSE")
    assert container["volumes"] == [f"data:{volume}"]
    assert container["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert container["init"] is True
    assert container["env_file"] == ".env"
    assert container["environment"] == {"RECEIVER_HOST": "0.0.0.0", "RECEIVER_PORT": port}
    assert parse_duration(container["stop_grace_period"]) > STOPPING
    assert int(port) == Settings.model_fields["port"].default


def test_the_systemd_unit_is_complete(written: Path) -> None:
    """It restarts what ends, but for wrong settings; `systemd-analyze verify` has no complaint about it."""
    unit = ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(written / "receiver.service")

    assert set(unit.sections()) == {"Unit", "Service", "Install"}
    section = unit["Service"]
    assert section["User"] == "receiver"
    assert section["ExecStart"] == f"{section['WorkingDirectory']}/.venv/bin/receiver serve"
    assert section["RestartPreventExitStatus"].split() == ["2", "3"]
    assert section["UMask"] == "0077"
    assert "Environment" not in section  # commands beside the server read only .env
    assert timedelta(seconds=int(section["TimeoutStopSec"])) > STOPPING
    steps = "".join(line[1:] for line in (written / "receiver.service").read_text().splitlines() if line[:1] == "#")
    state = f"/var/lib/{section['StateDirectory']}"
    assert f" RECEIVER_STORE=sqlite:///{state}/receiver.db OUTPUT_DIR={state}/output |" in steps
    assert f"tee -a {section['WorkingDirectory']}/.env" in steps


def test_the_proxies_pass_the_longest_body_to_the_endpoint(written: Path) -> None:
    """An answer 413 of the proxy would lose an event. A size of nginx is a power of 1,024."""
    nginx, caddy = (written / "nginx.conf").read_text(), (written / "Caddyfile").read_text()
    settings = Settings(_env_file=None)

    found = re.search(r"client_max_body_size (\d+)m;", nginx)
    assert found
    assert int(found[1]) * 2**20 == settings.max_body
    assert f"location ~ ^{settings.path}/?$ {{" in nginx
    assert f"handle {settings.path}* {{" in caddy
    assert "proxy_set_header X-Forwarded-For $remote_addr;" in nginx  # Caddy does so by itself
    for text in (nginx, caddy):
        assert f"127.0.0.1:{settings.port}" in text
        assert text.count("{") == text.count("}")


def test_git_ignores_every_file_of_a_store(written: Path) -> None:
    """Bodies lie in them, also in those that a restore keeps."""
    ignored = (written / ".gitignore").read_text().splitlines()

    for name in ("receiver.db", "receiver.db-wal", "receiver.db-bodies-1", "receiver.db-replaced-20260804T120000Z"):
        assert any(fnmatch(name, pattern) for pattern in ignored)


def files_in(folder: Path) -> set[str]:
    """Return the names of the files in a folder, without what Python made of them."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*.*") if path.suffix != ".pyc"}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new deployment for PostgreSQL."""
    folder = tmp_path_factory.mktemp("many")
    assert run(receiver.main, ["new", str(folder), "--postgres"]) == 0
    return folder


def test_with_postgres_two_processes_of_each_kind_share_a_database(many: Path) -> None:
    """They wait for it, and its password stands in `.env` alone."""
    content = yaml.safe_load((many / "compose.yaml").read_text())
    services = content["services"]

    assert set(services) == {"web", "worker", "postgres"}
    for name in ("web", "worker"):
        one = services[name]
        assert one["deploy"] == {"replicas": 2}
        assert one["depends_on"] == {"postgres": {"condition": "service_healthy"}}
        assert one["environment"]["RECEIVER_STORE"] == "postgresql://receiver@postgres/receiver"
        assert one["environment"]["PGPASSWORD"].startswith("${POSTGRES_PASSWORD:?")
        assert parse_duration(one["stop_grace_period"]) > STOPPING
    assert services["worker"]["command"] == ["receiver", "work"]
    [port] = of_the_image(many, "EXPOSE")
    assert services["web"]["ports"] == [f"127.0.0.1:8001-8002:{port}"]
    assert services["web"]["environment"]["RECEIVER_PORT"] == port
    [command] = of_the_image(many, "CMD")
    assert command == '["receiver", "serve", "--no-worker"]'


def test_with_postgres_systemd_starts_it_again_until_the_database_is_there(many: Path) -> None:
    """The exit code is 3 then. By default systemd gives a unit up that starts five times in ten seconds."""
    unit = (many / "receiver.service").read_text().splitlines()

    assert "RestartPreventExitStatus=2" in unit
    assert "RestartSec=5" in unit


def test_with_postgres_all_files_agree(many: Path, written: Path) -> None:
    """It has the same files. The proxies know both web processes, and nothing names a SQLite file."""
    assert files_in(many) == files_in(written)
    for name in ("Caddyfile", "nginx.conf"):
        text = (many / name).read_text()
        assert text.count("{") == text.count("}")
        assert all(f"127.0.0.1:{port}" in text for port in (8001, 8002))
    for name in ("compose.yaml", "Dockerfile", "receiver.service", ".env.example", "requirements.txt"):
        assert "sqlite" not in (many / name).read_text().lower()
    assert f"crawl-receiver[postgres]=={package.__version__}" in (many / "requirements.txt").read_text()
    example = (many / ".env.example").read_text()
    assert "\nPOSTGRES_PASSWORD=\n" in example
    assert example.count("RECEIVER_STORE=") == 1
    assert set(re.findall(r"RECEIVER_[A-Z_]+=", example)) == set(
        re.findall(r"RECEIVER_[A-Z_]+=", (written / ".env.example").read_text())
    )
