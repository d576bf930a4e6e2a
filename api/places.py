"""Where things lie in storage: under ids and hashes, so that storing one twice changes nothing."""

from store.tables import Artifact


def input_place(tenant_id: str, sha256: str) -> str:
    """Where an input's bytes lie."""
    return f"inputs/{tenant_id}/{_digits(sha256)}"


def artifact_place(attempt_id: str, sha256: str) -> str:
    """Where the bytes of an attempt's file lie."""
    return f"artifacts/{attempt_id}/{_digits(sha256)}"


def place_of(artifact: Artifact) -> str:
    """Where an artifact's bytes lie."""
    return artifact_place(artifact.attempt_id, artifact.sha256)


def _digits(sha256: str) -> str:
    return sha256.removeprefix("sha256:")
