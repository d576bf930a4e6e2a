"""The catalogue of images: what an admin admits, what nodes found behind it, and whose signature is asked for."""

from typing import Annotated, Literal

from corral.contract import Line, Request, View
from corral.jobs import ImageName
from corral.pulls import PullProgress
from pydantic import AfterValidator, Field, StringConstraints, model_validator

ImageReference = Annotated[
    str,
    StringConstraints(
        pattern=r"^(host|sha256:[0-9a-f]{64}|[a-z0-9][a-z0-9.-]{0,200}(:[0-9]{1,5})?(/[a-z0-9._-]{1,100}){1,8}@sha256:[0-9a-f]{64})$"
    ),
]
"""`repo@sha256:…`, or an engine's image id for an image built on the spot, or `host`. Never a tag."""
CudaVersion = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]?\.[0-9]{1,2}$")]
TenantId = Annotated[str, StringConstraints(pattern=r"^ten_[0-9a-z]{26}$")]
PublicKey = Annotated[
    str,
    StringConstraints(pattern=r"^-----BEGIN PUBLIC KEY-----\n[A-Za-z0-9+/=\n]{1,4000}\n-----END PUBLIC KEY-----\n?$"),
]
"""PEM."""
Reason = Annotated[Line, Field(min_length=1, max_length=500)]


def _once(tenants: list[str]) -> list[str]:
    return sorted(set(tenants))


TenantIds = Annotated[list[TenantId], AfterValidator(_once), Field(max_length=1000)]


class ImageSpec(Request):
    """An image to be admitted to the catalogue."""

    name: ImageName
    reference: ImageReference
    min_cuda: CudaVersion | None = None
    """CUDA version inside, such as "12.8", which a node's driver must run. None: what the image says of itself."""
    description: Line | None = None
    tenants: TenantIds | None = None
    """Who may see and use it, with all tenants below them; None for everybody."""


class ImageTenants(Request):
    """Who may see and use an image."""

    tenants: TenantIds | None
    """With all tenants below them; None for everybody."""


class ImageBlockSpec(Request):
    """Let a digest start nowhere any more."""

    reason: Reason
    """Shown to those whose jobs wait for it."""
    stop: bool = False
    """Stop what runs, too: as if preempted, with the job's grace. It waits then with the rest."""


class ImageFinding(View):
    """A setting of the image's that counts for nothing here, and what counts instead."""

    name: str
    found: str
    instead: str


class ImageCheckView(View):
    """What a node found when it looked at the image."""

    state: Literal["waiting", "good", "refused"]
    findings: list[ImageFinding]
    refusals: list[str]
    """Why it may not run."""
    cuda: str | None
    """Which CUDA it says that it holds."""
    size_bytes: int | None
    is_signature_wanted: bool
    signed_by: str | None
    """Whose signature was found good, where one is asked for."""
    trouble: str | None
    """Why the last node that was asked could not look."""
    checked_at: int | None


class ImageHosts(View):
    """On how many nodes it could run with GPUs, by their levels and drivers."""

    able: int
    known: int
    reasons: list[str]
    """Why the others could not."""
    least_driver: str | None
    """The NVIDIA driver from which its CUDA works."""


class ImageView(View):
    name: str
    kind: Literal["host", "engine"]
    reference: str
    min_cuda: str | None
    description: str | None
    state: Literal["checking", "admitted", "refused", "retired", "blocked"]
    """`checking`: no node has looked at it yet; jobs may name it, and each node's gate judges it before they start."""
    reason: str | None
    """Why it is blocked or refused, or cannot be checked yet."""
    check: ImageCheckView | None
    """None for `host`, and for what was admitted before images were checked."""
    hosts: ImageHosts
    tenants: list[str] | None
    """For admins: who may use it; None for everybody."""


class SignatureRuleSpec(Request):
    """Images of these repositories run only with this signature. The longest pattern that matches counts."""

    pattern: Annotated[str, StringConstraints(pattern=r"^[a-z0-9*][a-z0-9.:/_*-]{0,254}$")]
    """Of a repository, with `*` for anything: `registry.example/team/*`. A lone `*` means every image."""
    key_pem: PublicKey | None = None
    """The signer's public key. Or:"""
    identity: Annotated[Line, Field(min_length=1, max_length=500)] | None = None
    """Whom the certificate of a keyless signature must name,"""
    issuer: Annotated[Line, Field(min_length=1, max_length=500)] | None = None
    """and who must have vouched for that."""
    transparency_log: bool = True
    """Whether the signature must be in a transparency log. False for signatures made without one, by key."""

    @model_validator(mode="after")
    def _one_way(self) -> "SignatureRuleSpec":
        given = [self.key_pem is not None, self.identity is not None, self.issuer is not None]
        if given not in ([True, False, False], [False, True, True]):
            raise ValueError("a rule needs either key_pem, or identity and issuer")
        return self


class SignatureRuleView(View):
    id: str
    pattern: str
    key_pem: str | None
    identity: str | None
    issuer: str | None
    transparency_log: bool
    created_at: int


class NodeImage(View):
    """An image on a node that its worker has brought there, or is bringing."""

    reference: str
    size_bytes: int | None
    pull: PullProgress | None
    """While it is being pulled."""
