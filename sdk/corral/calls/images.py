"""Requests about the catalogue of images."""

from corral.call import PAGE_LIMIT, Call, act, create, delete, get, place, put
from corral.contract import Page
from corral.images import (
    ImageBlockSpec,
    ImageSpec,
    ImageTenants,
    ImageView,
    SignatureRuleSpec,
    SignatureRuleView,
)


def images() -> Call[Page[ImageView]]:
    """The catalogue, as far as the caller may use it."""
    return get(place("images"), Page[ImageView], limit=PAGE_LIMIT)


def image(name: str) -> Call[ImageView]:
    """One entry."""
    return get(place("images", name), ImageView)


def add_image(spec: ImageSpec) -> Call[ImageView]:
    """Admit an image to the catalogue (admin)."""
    return create(place("images"), ImageView, spec)


def retire_image(name: str) -> Call[ImageView]:
    """No new job may name it (admin)."""
    return act(place("images", name, "retire"), ImageView, is_repeatable=True)


def block_image(name: str, spec: ImageBlockSpec) -> Call[ImageView]:
    """Its digest starts nowhere any more, under whatever name (admin)."""
    return create(place("images", name, "block"), ImageView, spec)


def unblock_image(name: str) -> Call[ImageView]:
    """Its digest may start again (admin)."""
    return act(place("images", name, "unblock"), ImageView, is_repeatable=True)


def allow_image(name: str, spec: ImageTenants) -> Call[ImageView]:
    """Set who may see and use it (admin)."""
    return put(place("images", name, "tenants"), ImageView, spec)


def check_image(name: str) -> Call[ImageView]:
    """Let a node look at it once more (admin)."""
    return act(place("images", name, "check"), ImageView, is_repeatable=True)


def signature_rules() -> Call[Page[SignatureRuleView]]:
    """Whose signature is asked for (admin)."""
    return get(place("signature-rules"), Page[SignatureRuleView], limit=PAGE_LIMIT)


def add_signature_rule(spec: SignatureRuleSpec) -> Call[SignatureRuleView]:
    """Ask for a signature from now on (admin)."""
    return create(place("signature-rules"), SignatureRuleView, spec)


def remove_signature_rule(rule_id: str) -> Call[None]:
    """Ask for it no longer (admin)."""
    return delete(place("signature-rules", rule_id))
