"""Settings that are given, for tests: the machine must not decide how one ends.

No command needs the class, and making it takes some milliseconds.
"""

from typing import Any, ClassVar

from receiver.settings.model import Settings


class GivenSettings(Settings):
    """Settings that have only given values and defaults: they read no environment and no file."""

    _reads_environment: ClassVar[bool] = False

    def __init__(self, **values: Any) -> None:
        super().__init__(**values | {"_env_file": None})
