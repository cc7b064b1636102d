"""What an outage of 25 minutes costs."""

import subprocess
import sys
from pathlib import Path


def make(folder: Path) -> None:
    """Write the picture that the README's command writes."""
    command = (sys.executable, "-m", "receiver", "simulate", "--outage", "10m..35m", "--svg", "outage.svg")
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
