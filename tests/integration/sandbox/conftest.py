"""The conformance suite's assertions explain themselves, though its file is no test file."""

import pytest

pytest.register_assert_rewrite("tests.integration.sandbox.conformance", "tests.integration.sandbox.secrets_conformance")
