"""Does each benchmark still run, and does it say what it should? How fast it was is nobody's concern here."""

import json
from pathlib import Path

import pytest

from tests.benchmarks import ack, dispatch, replay
from tests.benchmarks.queue_rivals import rivals_here
from tests.benchmarks.servers import contenders_here

ACK = "--sizes 2048 --connections 4 --rounds 1 --seconds 0.1 --warmup 0 --stored 100 --in-flight 1000000 --no-wrk"
DISPATCH = "--stored 0,100 --waiting 100 --deliveries 50 --rounds 1 --batch 5 --repeat 2"


def test_ack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every contender answers, and everything it acknowledged is in its store."""
    file = tmp_path / "ack.json"

    code = ack.main([*ACK.split(), "--folder", str(tmp_path), "--json", str(file)])

    written = json.loads(file.read_text(encoding="utf-8"))
    assert code == 0
    assert [one["contender"] for one in written["acks"]] == contenders_here()
    for sample in (*written["acks"], *written["growth"]):
        assert sample["acked"] > 0
        assert sample["refused"] == {}
        assert sample["stored"] in (sample["acked"], None)
    assert "NOT ALL" not in capsys.readouterr().out


def test_dispatch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The worker handles each delivery once, and each call of the store has a time."""
    file = tmp_path / "dispatch.json"

    code = dispatch.main([*DISPATCH.split(), "--folder", str(tmp_path), "--json", str(file)])

    written = json.loads(file.read_text(encoding="utf-8"))
    assert code == 0
    kinds, rivals = ("async", "sync", "lanes", "batches"), rivals_here()
    assert {(one["stored"], one["handler"]) for one in written["handled"]} == {
        *((stored, kind) for stored in ("0 done", "100 done", "0 done, 100 waiting") for kind in kinds),
        *(("0 done", rival) for rival in rivals),
    }
    assert all(one["handled"] == one["expected"] for one in written["handled"])
    assert len({len(one) for one in written["calls"]}) == 1
    assert "NOT ALL" not in capsys.readouterr().out


def test_replay(tmp_path: Path) -> None:
    """Each command does what it is measured with, and deliveries are acknowledged beside each one."""
    file = tmp_path / "replay.json"

    arguments = "--deliveries 100 --rounds 1 --connections 2 --seconds 0.1 --warmup 0"
    assert replay.main([*arguments.split(), "--folder", str(tmp_path), "--json", str(file)]) == 0

    written = json.loads(file.read_text(encoding="utf-8"))
    assert [one["command"] for one in written["commands"]] == list(replay.COMMANDS)
    assert {one["code"] for one in written["commands"]} == {0}
    assert [one["beside"] for one in written["acks"]] == ["nothing", *replay.BESIDE]
    assert all(one["acked"] > 0 for one in written["acks"])
