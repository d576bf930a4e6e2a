"""The conformance suites' assertions explain themselves, though their files are no test files."""

import pytest

for part in ("lives", "life_conformance", "wall_conformance", "crash_conformance", "secrets_conformance"):
    pytest.register_assert_rewrite(f"tests.integration.sandbox.{part}")
