"""Traces of real processes: one trace over two of them, and nothing loaded where they are off."""

import json
import os
import signal
from pathlib import Path

import pytest

from receiver.core.signing import sign
from tests.doubles import body_of
from tests.process.harness import SECRET, STEADY, Deployment, connection, raw_request, until

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CONFIGURATOR = """
import json, os
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

class Files(SpanExporter):
    def export(self, spans):
        with open(f"spans.{os.getpid()}", "a") as file:
            for span in spans:
                file.write(span.to_json(indent=None) + "\\n")
        return SpanExportResult.SUCCESS

class Configurator:
    def configure(self):
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(Files()))
        trace.set_tracer_provider(provider)
"""
SHOWS_MODULES = """
import atexit, os, sys

@atexit.register
def show():
    loaded = [name for name in sys.modules if name.split(".")[0] == "opentelemetry"]
    command = next((word for word in sys.argv if word in ("serve", "work")), "")
    if command:
        with open(f"loaded.{command}", "w") as file:
            print(loaded, file=file)
"""


@pytest.fixture
def vendor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A vendor's distribution of OpenTelemetry, installed where every process finds it."""
    installed = tmp_path / "installed"
    described = installed / "files_vendor-1.0.dist-info"
    described.mkdir(parents=True)
    (installed / "files_vendor.py").write_text(CONFIGURATOR)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: files-vendor\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text("[opentelemetry_configurator]\nfiles = files_vendor:Configurator\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(installed), *filter(None, [os.getenv("PYTHONPATH")])]))
    return installed


def written(folder: Path, stem: str) -> dict[str, str]:
    """Return what the processes have written into files of their own."""
    return {path.suffix: path.read_text() for path in folder.glob(f"{stem}.*")}


async def post_in_trace(port: int, body: bytes) -> int:
    headers = [("X-Firecrawl-Signature", sign(body, SECRET)), ("traceparent", f"00-{TRACE}-{PARENT}-01")]
    async with connection(port) as line:
        await line.say(raw_request("POST", "/webhooks", body, headers))
        return (await line.answer()).status


@pytest.mark.usefixtures("vendor")
async def test_a_trace_leads_through_both_processes(tmp_path: Path) -> None:
    """From the request of the sender, through the store, to the handler in the worker."""
    deployment = Deployment(tmp_path, traces="true", **STEADY)
    deployment.cold = True
    async with deployment.serve() as serving:
        assert await post_in_trace(serving.port, body_of(webhookId="w-1")) == 200
        await deployment.all_handled()
        await until(lambda: len(written(tmp_path, "spans")) == 2, "the spans of two processes")

    found = {}
    for process, text in written(tmp_path, "spans").items():
        for span in map(json.loads, text.splitlines()):
            found[span["name"]] = process, span
    assert found.keys() == {"receive crawl.page", "process crawl.page"}
    (web, received), (worker, processed) = found["receive crawl.page"], found["process crawl.page"]
    assert web != worker
    assert received["context"]["trace_id"] == processed["context"]["trace_id"] == f"0x{TRACE}"
    assert received["parent_id"] == f"0x{PARENT}"
    assert processed["parent_id"] == received["context"]["span_id"]
    assert processed["attributes"]["messaging.consumer.group.name"] == "handlers.record"


async def test_nothing_is_loaded_without_traces(tmp_path: Path, vendor: Path) -> None:
    """Neither by the endpoint nor by the worker, even where everything is installed."""
    deployment = Deployment(tmp_path, **STEADY)
    deployment.cold = True
    (vendor / "sitecustomize.py").write_text(SHOWS_MODULES)
    async with deployment.serve() as serving:
        assert await post_in_trace(serving.port, body_of(webhookId="w-1")) == 200
        await deployment.all_handled()
        serving.send_signal(signal.SIGTERM)
        assert await serving.exit_code() == 0

    assert written(tmp_path, "loaded") == {".serve": "[]\n", ".work": "[]\n"}
