"""What a reference says, which driver a CUDA needs, and whose signature counts."""

import pytest

from domain.images import (
    SignatureRule,
    cuda_inside,
    cuda_version,
    digest_of,
    least_driver,
    repository_of,
    rule_for,
    version_text,
    why_not_driven,
)

DIGEST = "sha256:" + "a" * 64


def a_rule(pattern: str) -> SignatureRule:
    return SignatureRule(pattern, pattern, "key", None, None, True)


@pytest.mark.parametrize(
    ("reference", "repository"), [(f"r.example:5000/a/b@{DIGEST}", "r.example:5000/a/b"), (DIGEST, ""), ("host", "")]
)
def test_a_reference_is_a_repository_and_a_digest(reference: str, repository: str) -> None:
    assert repository_of(reference) == repository
    assert digest_of(reference) == ("host" if reference == "host" else DIGEST)


def test_the_longest_pattern_that_matches_counts() -> None:
    rules = [a_rule("*"), a_rule("r.example/*"), a_rule("r.example/team/*")]
    for reference, pattern in (
        (f"r.example/team/x@{DIGEST}", "r.example/team/*"),
        (f"r.example/other@{DIGEST}", "r.example/*"),
        (DIGEST, "*"),
    ):
        found = rule_for(reference, rules)
        assert found is not None
        assert found.pattern == pattern
    assert rule_for(f"q.example/team/x@{DIGEST}", rules[1:]) is None
    assert rule_for(f"evil.example/r.example/team/x@{DIGEST}", rules[1:]) is None


@pytest.mark.parametrize(
    ("env", "labels", "cuda"),
    [
        ({}, {}, None),
        ({"CUDA_VERSION": "12.8.1"}, {}, (12, 8)),
        ({"NVIDIA_REQUIRE_CUDA": "cuda>=12.4 brand=tesla,driver>=470"}, {}, (12, 4)),
        ({"CUDA_VERSION": "12.8.1"}, {"corral.cuda": "13.0"}, (13, 0)),
        ({"CUDA_VERSION": "newest"}, {"com.nvidia.cuda.version": "11.8.0"}, (11, 8)),
        ({"CUDA_VERSION": "999.1"}, {}, None),
    ],
)
def test_an_image_says_which_cuda_it_holds(
    env: dict[str, str], labels: dict[str, str], cuda: tuple[int, int] | None
) -> None:
    assert cuda_inside(env, labels) == cuda


@pytest.mark.parametrize(
    ("cuda", "driver"),
    [
        ((12, 8), "570.26"),
        ((12, 7), "560.28.03"),
        ((13, 9), "595.45.04"),
        ((12, 1), "530.30.02"),
        ((11, 4), "450.80.02"),
    ],
)
def test_each_cuda_has_the_driver_it_came_with_or_its_elders(cuda: tuple[int, int], driver: str) -> None:
    found = least_driver(cuda)
    assert found is not None
    assert version_text(found) == driver
    assert least_driver((99, 0)) is None


def test_a_node_s_driver_runs_an_image_or_it_is_said_why_not() -> None:
    assert why_not_driven((12, 8), "570.124.06", "12.8") is None
    assert why_not_driven((12, 8), "580.65.06", "13.0") is None
    assert why_not_driven((12, 8), None, None) == "no NVIDIA driver"
    old = why_not_driven((12, 8), "535.104.05", "12.2") or ""
    assert "570.26 or newer is needed" in old
    assert "minor version compatibility" in old
    assert "compatibility" not in (why_not_driven((13, 0), "535.104.05", "12.2") or "")
    assert cuda_version("12") is None
