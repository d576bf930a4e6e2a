"""What every sandbox backend must do, whichever wall it builds: one class, subclassed for each backend.

A subclass gives two fixtures, `sandbox` and `order`, and says what its host can do. Commands are POSIX shell, so that
an image of one busybox is enough.
"""

from tests.integration.sandbox.crash_conformance import CrashConformance
from tests.integration.sandbox.life_conformance import LifeConformance
from tests.integration.sandbox.secrets_conformance import SecretsConformance
from tests.integration.sandbox.wall_conformance import WallConformance


class SandboxConformance(LifeConformance, WallConformance, SecretsConformance, CrashConformance):
    """The suite."""
